#include "tools/cases/norm_glue.hpp"

namespace kiln::tools::cases {

OpCase hc_combine_norm() {
  OpCase out;
  out.op = "hc_combine_norm";
  out.rows = "m";
  out.dims = {{"k", 5120}};
  out.scalars = {{"eps", kEps}};
  out.dtypes = {{"pre", DType::kF32}};
  out.shapes = shapes_of_rows("x[{},20480]", "m", {1, 4, 8, 48, 96, 256, 1000, 4096, 16384});
  out.reference = [](HostCall& call, const ReferenceDevice& device) {
    call.store("y", hc_combine_norm_of(call, device));
  };
  return out;
}

}  // namespace kiln::tools::cases
