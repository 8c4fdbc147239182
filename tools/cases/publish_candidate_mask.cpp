#include "tools/cases/candidate_glue.hpp"

namespace kiln::tools::cases {

OpCase publish_candidate_mask() {
  OpCase out;
  out.op = "publish_candidate_mask";
  set_seq_lens(out);
  out.dims = {{"width", 131'072}, {"k", kTopkBlocks}};
  // Distinct in a row: an odd step visits every one of a power of two of them.
  out.fills["indices"] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall& call) {
    const std::int64_t k = call.dim("k");
    const std::int64_t blocks = block_shape(call).blocks();
    std::int64_t next = 0;
    fill_integers(tensor, generator, [&](std::mt19937_64&) {
      const std::int64_t row = next / std::max<std::int64_t>(k, 1);
      return (next++ * 7 + row) % std::max<std::int64_t>(blocks, 1);
    });
  };
  out.shapes = shapes_of_rows("[{},131072] b8 k2048", "rows", {1, 4, 64});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const reference::SelectedBlocks selected = {values_of<std::int32_t>(call, "indices"),
                                                values_of<float>(call, "values")};
    call.store("keep",
               reference::publish_candidate_mask(selected, call.dim("k"), block_shape(call)));
  };
  return out;
}

}  // namespace kiln::tools::cases
