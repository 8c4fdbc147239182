#include "tools/cases/engram_glue.hpp"

namespace kiln::tools::cases {

OpCase engram_hash_ids_and_commit() {
  OpCase out;
  out.op = "engram_hash_ids_and_commit";
  set_hash_inputs(out);
  out.fills["out_cache_loc"] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
    fill_integers(tensor, generator, [](std::mt19937_64& random) {
      return uniform(random, 0, 7) == 0 ? 0 : uniform(random, 1, 1'000'000);
    });
  };
  out.traffic = [](const HostCall& call) {
    const auto rows = static_cast<std::size_t>(call.dim("t") * (call.dim("n") - 1));
    return hash_traffic(call) + rows * sizeof(std::int32_t);  // Written, too.
  };
  for (const std::int64_t t : {1, 64, 1024}) {
    const std::string size = "T=" + std::to_string(t) + " N4 L3 H8";
    out.shapes.push_back({"decode " + size, {{"t", t}}});
    out.shapes.push_back({"decode " + size + " reciprocals", {{"t", t}}, {"reciprocals"}});
  }
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const reference::EngramStep step = hash_step(call);
    const reference::EngramHashes hashes = reference::engram_hash_ids(hash_tables(call), step);
    call.store("ids", hashes.ids);
    call.store("tokens", hashes.tokens);
    call.store("history",
               reference::commit_decoded(call.dim("n"), step.history, hashes.tokens,
                                         *step.req_slots, integers(call.tensor("out_cache_loc"))));
  };
  return out;
}

}  // namespace kiln::tools::cases
