#include "reference/engram_gate.hpp"
#include "tools/cases/norm_glue.hpp"

namespace kiln::tools::cases {

OpCase fused_engram_gate() {
  OpCase out;
  out.op = "fused_engram_gate";
  out.rows = "t";
  out.dims = {{"hc", 4}, {"d", 5120}};
  out.scalars = {{"eps", kEps}, {"clamp", 1e-6}};
  out.shapes = shapes_of_rows("x[{},4,5120]", "t", {1, 8, 64, 256, 1000, 4096});
  out.reference = [](HostCall& call, const ReferenceDevice& device) {
    const reference::EngramGate shape = {call.dim("t"), call.dim("hc"), call.dim("d"), eps(call),
                                         static_cast<float>(call.scalar("clamp"))};
    const std::vector<float> values = reference::fused_engram_gate(
        shape, floats(call.tensor("x")), floats(call.tensor("kv")), floats(call.tensor("q_weight")),
        floats(call.tensor("k_weight")), device.rsqrt);
    if (call.dtype("out") == DType::kF32) {
      call.store("out", values);
    } else {
      call.store("out", reference::to_bf16s(values));
    }
  };
  return out;
}

}  // namespace kiln::tools::cases
