#include "reference/gemm.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::cases {

OpCase n128k512_gemm_bf16() {
  OpCase out;
  out.op = "n128k512_gemm_bf16";
  out.rows = "m";
  out.shapes = shapes_of_rows("m={}", "m", {1, 4, 8, 16, 32});
  out.reference = [](HostCall& call, const ReferenceDevice& device) {
    const std::int64_t m = call.dim("m");
    std::vector<reference::Bf16> products(call.tensor("out").elements());
    reference::n128k512_gemm_bf16(
        call.data<reference::Bf16>("x"), 512, call.data<reference::Bf16>("w"), products.data(), m,
        reference::vector_elements(device.capability.major * 10 + device.capability.minor));
    call.store("out", products);
  };
  return out;
}

}  // namespace kiln::tools::cases
