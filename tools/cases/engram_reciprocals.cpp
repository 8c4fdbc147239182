#include "tools/cases/engram_glue.hpp"

namespace kiln::tools::cases {

OpCase engram_reciprocals() {
  OpCase out;
  out.op = "engram_reciprocals";
  out.rows = "count";
  out.fills["primes"] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
    fill_integers(tensor, generator, [](std::mt19937_64& random) {
      return static_cast<std::int64_t>(random() >> static_cast<unsigned>(uniform(random, 1, 62))) |
             1;
    });
  };
  out.shapes = shapes_of_rows("count={}", "count", {72, 4096});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    std::vector<std::uint64_t> reciprocals;
    for (const std::int64_t prime : integers(call.tensor("primes"))) {
      reciprocals.push_back(reference::reciprocal_of(static_cast<std::uint64_t>(prime)));
    }
    call.store("reciprocals", reciprocals);
  };
  return out;
}

}  // namespace kiln::tools::cases
