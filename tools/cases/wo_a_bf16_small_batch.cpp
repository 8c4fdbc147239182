#include "tools/cases/wo_a_glue.hpp"

namespace kiln::tools::cases {

OpCase wo_a_bf16_small_batch() {
  OpCase out;
  out.op = "wo_a_bf16_small_batch";
  set_wo_a_sizes(out, {2, 4, 8, 16});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    call.store("y", wo_a_small_batch_of(call));
  };
  return out;
}

}  // namespace kiln::tools::cases
