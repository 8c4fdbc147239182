#include "tools/cases/norm_glue.hpp"

namespace kiln::tools::cases {

OpCase rmsnorm_fp32() {
  OpCase out;
  out.op = "rmsnorm_fp32";
  out.rows = "m";
  out.dims = {{"k", 5120}};
  out.scalars = {{"eps", kEps}};
  out.shapes = shapes_of_rows("x[{},5120]", "m", {1, 8, 256, 1000, 4096});
  out.reference = [](HostCall& call, const ReferenceDevice& device) {
    const std::vector<float> y = reference::rms_norm(
        floats(call.tensor("x")), floats(call.tensor("w")), eps(call), device.rsqrt);
    if (call.dtype("y") == DType::kF32) {
      call.store("y", y);
    } else {
      call.store("y", reference::to_bf16s(y));
    }
  };
  return out;
}

}  // namespace kiln::tools::cases
