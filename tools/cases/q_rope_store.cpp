#include <fmt/format.h>

#include "tools/cases/rope_glue.hpp"

namespace kiln::tools::cases {

OpCase q_rope_store() {
  OpCase out;
  out.op = "q_rope_store";
  set_rope_inputs(out);
  for (const std::int64_t rows : {1, 6, 64, 256, 4096, 16384}) {
    out.shapes.push_back({fmt::format("q[{0},16,512]->[{0},64,512]", rows), {{"rows", rows}}});
  }
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    call.store("out", rope_of(call, "q"));
  };
  return out;
}

}  // namespace kiln::tools::cases
