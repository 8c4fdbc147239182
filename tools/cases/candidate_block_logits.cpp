#include <fmt/format.h>

#include "tools/cases/candidate_glue.hpp"

namespace kiln::tools::cases {
namespace {

void select(HostCall& call) {
  const reference::BlockScores scores = scores_of(call);
  const reference::BlockShape shape = block_shape(call);
  const std::int64_t k =
      std::min(static_cast<std::int64_t>(call.scalar("topk_blocks")), shape.blocks());
  call.store("out", scores.out);
  call.store("keep",
             reference::publish_candidate_mask(
                 reference::candidate_select_blocks(scores.scores, shape.blocks(), k), k, shape));
}

void consume(HostCall& call) {
  call.store("out", reference::candidate_consume(
                        values_of<float>(call, "logits"), integers(call.tensor("seq_lens")),
                        values_of<std::uint8_t>(call, "published"), call.dim("width")));
}

}  // namespace

OpCase candidate_block_logits() {
  OpCase out;
  out.op = "candidate_block_logits";
  set_seq_lens(out);
  out.dims = {{"width", 131'072}};
  out.with = {"keep"};
  out.fills["published"] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
    for (std::uint8_t& value : tensor.as<std::uint8_t>()) {
      value = uniform(generator, 0, 7) == 0 ? 1 : 0;
    }
  };
  for (const std::int64_t rows : {1, 4, 64}) {
    const std::string size = fmt::format("[{},131072] b8 k2048 ", rows);
    out.shapes.push_back({size + "None", {{"rows", rows}}, {"keep"}});
    out.shapes.push_back({size + "mask", {{"rows", rows}}, {"published"}});
  }
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    call.has("published") ? consume(call) : select(call);
  };
  return out;
}

}  // namespace kiln::tools::cases
