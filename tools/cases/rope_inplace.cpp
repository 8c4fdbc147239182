#include "tools/cases/rope_glue.hpp"

namespace kiln::tools::cases {

OpCase rope_inplace() {
  OpCase out;
  out.op = "rope_inplace";
  set_rope_inputs(out);
  out.shapes = shapes_of_rows("[{},16,512]", "rows", {1, 6, 64, 4096});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    call.store("x", rope_of(call, "x"));
  };
  return out;
}

}  // namespace kiln::tools::cases
