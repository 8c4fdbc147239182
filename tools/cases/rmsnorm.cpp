#include "tools/cases/norm_glue.hpp"

namespace kiln::tools::cases {

OpCase rmsnorm() {
  OpCase out;
  out.op = "rmsnorm";
  out.rows = "m";
  out.dims = {{"k", 5120}};
  out.scalars = {{"eps", kEps}};
  out.shapes = shapes_of_rows("x[{},5120]", "m", {1, 8, 256, 1000, 4096});
  out.reference = [](HostCall& call, const ReferenceDevice& device) {
    call.store("y", rmsnorm_of(call, device));
  };
  return out;
}

}  // namespace kiln::tools::cases
