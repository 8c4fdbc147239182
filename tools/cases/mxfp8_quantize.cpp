#include "tools/cases/norm_glue.hpp"

namespace kiln::tools::cases {

OpCase mxfp8_quantize() {
  OpCase out;
  out.op = "mxfp8_quantize";
  out.rows = "m";
  out.dims = {{"k", 5120}};
  out.shapes = shapes_of_rows("x[{},5120]", "m", {1, 8, 256, 1000, 4096});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    store_mxfp8(call, call.data<Bf16>("x"));
  };
  return out;
}

}  // namespace kiln::tools::cases
