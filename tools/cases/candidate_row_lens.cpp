#include "tools/cases/candidate_glue.hpp"

namespace kiln::tools::cases {

OpCase candidate_row_lens() {
  OpCase out;
  out.op = "candidate_row_lens";
  set_seq_lens(out);
  out.shapes = shapes_of_rows("rows={}", "rows", {1, 256});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const reference::RowLens lens = reference::candidate_row_lens(
        integers(call.tensor("seq_lens")), static_cast<std::int64_t>(call.scalar("topk_blocks")),
        static_cast<std::int64_t>(call.scalar("block_size")));
    call.store("nblocks", lens.nblocks);
    call.store("valid", lens.valid);
  };
  return out;
}

}  // namespace kiln::tools::cases
