#include "tools/cases/engram_glue.hpp"

namespace kiln::tools::cases {
namespace {

// Of `size` elements, from 0 up to the number of tokens, an empty run among them.
void fill_runs(HostTensor& indptr, std::mt19937_64& generator, const HostCall& call) {
  std::vector<std::int64_t> ends(indptr.elements(), 0);
  for (std::size_t i = 1; i < ends.size(); ++i) {
    ends[i] = uniform(generator, 0, call.dim("t"));
  }
  std::sort(ends.begin(), ends.end());
  std::size_t next = 0;
  fill_integers(indptr, generator, [&](std::mt19937_64&) { return ends[next++]; });
}

// Tokens of request i are those of `block` from i * block on.
constexpr std::int64_t kBlock = 4;

reference::EngramStep step_of(const HostCall& call) {
  reference::EngramStep step = hash_step(call);
  const auto given = [&](const char* name) {
    return call.has(name) ? reference::Integers(integers(call.tensor(name))) : std::nullopt;
  };
  step.row = given("row");
  step.starts = given("starts");
  step.qo_indptr = given("qo_indptr");
  if (call.has("block")) {
    step.block = static_cast<std::int64_t>(call.scalar("block"));
  }
  if (call.has("num_real")) {
    step.num_real = static_cast<std::int64_t>(call.scalar("num_real"));
  }
  return step;
}

}  // namespace

OpCase engram_hash_ids() {
  OpCase out;
  out.op = "engram_hash_ids";
  set_hash_inputs(out);
  out.dims["r"] = 1024;
  out.dims["q"] = 65;
  out.scalars["num_real"] = 30;
  out.scalars["block"] = static_cast<double>(kBlock);
  const auto counted = [](std::int64_t divisor, std::int64_t factor) {
    return [=](HostTensor& tensor, std::mt19937_64& generator, const HostCall& call) {
      const std::int64_t last = std::max<std::int64_t>(call.dim("r") - 1, 0);
      std::int64_t next = 0;
      fill_integers(tensor, generator,
                    [&](std::mt19937_64&) { return std::min(next++ / divisor, last) * factor; });
    };
  };
  out.fills["row"] = counted(kBlock, 1);
  out.fills["starts"] = counted(1, kBlock);
  out.fills["qo_indptr"] = fill_runs;
  out.traffic = hash_traffic;
  for (const std::int64_t t : {1, 64, 1024}) {
    const std::string size = "T=" + std::to_string(t) + " N4 L3 H8";
    const std::map<std::string, std::int64_t> dims = {{"t", t}, {"r", t}};
    out.shapes.push_back({"decode " + size, dims, {"req_slots"}});
    out.shapes.push_back({"decode " + size + " reciprocals", dims, {"req_slots", "reciprocals"}});
  }
  const std::map<std::string, std::int64_t> verify = {{"t", 256}, {"r", 64}, {"q", 65}};
  out.shapes.push_back(
      {"verify T=256 N4 L3 H8 reciprocals", verify, {"req_slots", "block", "reciprocals"}});
  out.shapes.push_back(
      {"ragged T=256 N4 L3 H8 reciprocals", verify, {"req_slots", "qo_indptr", "reciprocals"}});
  out.shapes.push_back({"extend T=8192 N4 L3 H8 reciprocals",
                        {{"t", 8192}, {"r", 2048}, {"rows", 2048}},
                        {"req_slots", "row", "starts", "reciprocals"}});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const reference::EngramHashes hashes =
        reference::engram_hash_ids(hash_tables(call), step_of(call));
    call.store("ids", hashes.ids);
    call.store("tokens", hashes.tokens);
  };
  return out;
}

}  // namespace kiln::tools::cases
