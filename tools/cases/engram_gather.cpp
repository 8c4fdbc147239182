#include "reference/engram_gather.hpp"

#include "tools/cases/engram_glue.hpp"

namespace kiln::tools::cases {

OpCase engram_gather() {
  OpCase out;
  out.op = "engram_gather";
  out.rows = "n";
  out.dims = {{"rows", 4096}, {"dim", 512}, {"groups", 4}};
  out.scalars = {{"row_lo", 1000}};
  for (const char* const name : {"weight", "scale"}) {
    // Any bytes at all, NaN and the largest scales among them.
    out.fills[name] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
      fill_bytes(tensor, generator);
    };
  }
  out.fills["ids"] = [](HostTensor& ids, std::mt19937_64& generator, const HostCall& call) {
    // One of 64 is not in the table that is here.
    const std::int64_t rows = call.dim("rows");
    fill_integers(ids, generator, [&](std::mt19937_64& random) {
      const std::int64_t row = uniform(random, 0, std::max<std::int64_t>(rows - 1, 0));
      return 1000 + row + (uniform(random, 0, 63) == 0 ? rows : 0);
    });
  };
  out.traffic = [](const HostCall& call) {
    const auto row_bytes = static_cast<std::size_t>(call.dim("dim") + call.dim("groups"));
    return call.tensor("ids").bytes() + call.tensor("out").bytes() +
           static_cast<std::size_t>(call.dim("n")) * row_bytes;
  };
  out.shapes =
      shapes_of_rows("n={} dim=512 table 1e6", "n", {16, 256, 1024, 8192}, {{"rows", 1'000'000}});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const std::int64_t dim = call.dim("dim");
    const reference::EngramTable table = {call.data<std::uint8_t>("weight"),
                                          call.data<std::uint8_t>("scale"),
                                          static_cast<std::int64_t>(call.scalar("row_lo")),
                                          call.dim("rows"),
                                          dim,
                                          dim / call.dim("groups")};
    call.store("out", reference::engram_gather(table, integers(call.tensor("ids"))));
  };
  return out;
}

}  // namespace kiln::tools::cases
