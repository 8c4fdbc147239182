#include "reference/topk_pages.hpp"
#include "tools/cases/engram_glue.hpp"

namespace kiln::tools::cases {
namespace {

constexpr std::int64_t kPageSize = 64;

void store_integers(HostCall& call, const char* arg, const std::vector<std::int64_t>& values) {
  if (call.dtype(arg) == DType::kI64) {
    call.store(arg, values);
  } else {
    call.store(arg, std::vector<std::int32_t>(values.begin(), values.end()));
  }
}

void reference_of(HostCall& call) {
  const auto scores = call.tensor("scores").as<float>();
  const auto table = call.tensor("page_table").as<std::int32_t>();
  const reference::FilteredPages pages =
      reference::filter_topk_pages({{scores.begin(), scores.end()},
                                    integers(call.tensor("indices")),
                                    {table.begin(), table.end()},
                                    call.dim("width"),
                                    call.dim("k"),
                                    call.dim("p"),
                                    static_cast<std::int64_t>(call.scalar("page_size"))});
  store_integers(call, "page_indices", pages.page_indices);
  if (call.has("raw_indices")) {
    store_integers(call, "raw_indices", pages.raw_indices);
  }
}

}  // namespace

OpCase filter_topk_pages() {
  OpCase out;
  out.op = "filter_topk_pages";
  out.rows = "rows";
  out.dims = {{"width", 131'072}, {"k", 2048}, {"p", 131'072 / kPageSize}};
  out.scalars = {{"page_size", static_cast<double>(kPageSize)}};
  out.with = {"raw_indices"};
  // One of 32 is outside the row.
  out.fills["indices"] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall& call) {
    const std::int64_t width = call.dim("width");
    fill_integers(tensor, generator, [=](std::mt19937_64& random) {
      return uniform(random, 0, 31) == 0 ? uniform(random, 0, 1) * (width + 1) - 1
                                         : uniform(random, 0, width - 1);
    });
  };
  out.fills["page_table"] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
    fill_integers(tensor, generator,
                  [](std::mt19937_64& random) { return uniform(random, 0, 1'000'000); });
  };
  // Of the scores and the table, what the indices look up.
  out.traffic = [](const HostCall& call) {
    const auto looked_up = static_cast<std::size_t>(call.dim("rows") * call.dim("k"));
    std::size_t total = looked_up * (sizeof(float) + sizeof(std::int32_t));
    for (const HostTensor& tensor : call.tensors()) {
      const bool whole = tensor.arg->name != "scores" && tensor.arg->name != "page_table";
      total += whole ? tensor.bytes() : 0;
    }
    return total;
  };
  for (const std::int64_t rows : {1, 64, 256}) {
    const std::string size = "rows=" + std::to_string(rows) + " k=2048 w=131072 p=64";
    out.shapes.push_back({size, {{"rows", rows}}});
  }
  out.reference = [](HostCall& call, const ReferenceDevice&) { reference_of(call); };
  return out;
}

}  // namespace kiln::tools::cases
