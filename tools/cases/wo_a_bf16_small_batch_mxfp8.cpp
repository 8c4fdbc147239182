#include "reference/mxfp8.hpp"
#include "tools/cases/wo_a_glue.hpp"

namespace kiln::tools::cases {

OpCase wo_a_bf16_small_batch_mxfp8() {
  OpCase out;
  out.op = "wo_a_bf16_small_batch_mxfp8";
  set_wo_a_sizes(out, {2, 4, 8, 16});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const std::int64_t width = call.dim("g") * call.dim("r");
    const reference::Mxfp8 quantized =
        reference::mxfp8_quantize(wo_a_small_batch_of(call).data(), width, call.dim("m"), width);
    call.store("q", quantized.q);
    call.store("sf", quantized.sf);
  };
  return out;
}

}  // namespace kiln::tools::cases
