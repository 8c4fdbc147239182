#include "tools/cases/candidate_glue.hpp"

namespace kiln::tools::cases {

OpCase candidate_select_blocks() {
  OpCase out;
  out.op = "candidate_select_blocks";
  out.rows = "rows";
  out.dims = {{"b", 16'384}, {"k", kTopkBlocks}};
  out.shapes = shapes_of_rows("[{},16384] f32 k=2048", "rows", {1, 4, 64});
  for (const std::int64_t rows : {1, 64}) {
    out.shapes.push_back(
        {"[" + std::to_string(rows) + ",131072] f32 k=2048", {{"rows", rows}, {"b", 131'072}}});
  }
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const reference::SelectedBlocks selected = reference::candidate_select_blocks(
        values_of<float>(call, "scores"), call.dim("b"), call.dim("k"));
    call.store("indices", selected.indices);
    call.store("values", selected.values);
  };
  return out;
}

}  // namespace kiln::tools::cases
