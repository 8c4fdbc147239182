#include "tools/cases/engram_glue.hpp"

namespace kiln::tools::cases {

OpCase engram_commit_history() {
  OpCase out;
  out.op = "engram_commit_history";
  out.rows = "r";
  out.dims = {{"rows", 1024}, {"k", 3}, {"w", 4}};
  for (const char* const name : {"history", "verify_ids"}) {
    out.fills[name] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
      fill_integers(tensor, generator,
                    [](std::mt19937_64& random) { return uniform(random, 0, 129'279); });
    };
  }
  out.fills["req_slots"] = fill_slots;
  out.fills["commit_lens"] = [](HostTensor& tensor, std::mt19937_64& generator,
                                const HostCall& call) {
    fill_integers(tensor, generator,
                  [&](std::mt19937_64& random) { return uniform(random, -1, call.dim("w") + 1); });
  };
  out.traffic = [](const HostCall& call) {
    const auto rows = static_cast<std::size_t>(call.dim("r") * call.dim("k"));
    return call.tensor("verify_ids").bytes() + call.tensor("req_slots").bytes() +
           call.tensor("commit_lens").bytes() + 2 * rows * sizeof(std::int32_t);
  };
  out.shapes = shapes_of_rows("r={} k=3 w=4", "r", {1, 64, 1024});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const auto history = call.tensor("history").as<std::int32_t>();
    call.store("history",
               reference::engram_commit_history(call.dim("k"), {history.begin(), history.end()},
                                                integers(call.tensor("verify_ids")),
                                                integers(call.tensor("req_slots")),
                                                integers(call.tensor("commit_lens"))));
  };
  return out;
}

}  // namespace kiln::tools::cases
