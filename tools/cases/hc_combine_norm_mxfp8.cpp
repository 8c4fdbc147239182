#include "tools/cases/norm_glue.hpp"

namespace kiln::tools::cases {

OpCase hc_combine_norm_mxfp8() {
  OpCase out;
  out.op = "hc_combine_norm_mxfp8";
  out.rows = "m";
  out.dims = {{"k", 5120}};
  out.scalars = {{"eps", kEps}};
  out.dtypes = {{"pre", DType::kF32}};
  out.shapes = shapes_of_rows("x[{},20480]", "m", {1, 4, 8, 256, 1000, 4096});
  out.reference = [](HostCall& call, const ReferenceDevice& device) {
    const std::vector<Bf16> y = hc_combine_norm_of(call, device);
    call.store("y", y);
    store_mxfp8(call, y.data());
  };
  return out;
}

}  // namespace kiln::tools::cases
