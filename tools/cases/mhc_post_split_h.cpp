#include "tools/cases/norm_glue.hpp"

namespace kiln::tools::cases {

OpCase mhc_post_split_h() {
  OpCase out;
  out.op = "mhc_post_split_h";
  out.rows = "t";
  out.dims = {{"h", 5120}};
  out.shapes = shapes_of_rows("x[{},5120]", "t", {1, 8, 64, 256, 1000, 4096});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    call.store("out",
               reference::mhc_post_split_h(call.data<Bf16>("x"), call.data<Bf16>("residual"),
                                           call.data<float>("post"), call.data<float>("comb"),
                                           call.dim("t"), call.dim("h")));
  };
  return out;
}

}  // namespace kiln::tools::cases
