#include "tools/cases/candidate_glue.hpp"

namespace kiln::tools::cases {

OpCase candidate_block_scores() {
  OpCase out;
  out.op = "candidate_block_scores";
  set_seq_lens(out);
  out.dims = {{"width", 131'072}, {"b", 131'072 / kBlockSize}};
  out.shapes = shapes_of_rows("[{},131072] b8", "rows", {1, 4, 64});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const reference::BlockScores scores = scores_of(call);
    call.store("out", scores.out);
    call.store("scores", scores.scores);
  };
  return out;
}

}  // namespace kiln::tools::cases
