#include <utility>

#include "tools/cases/norm_glue.hpp"

namespace kiln::tools::cases {

OpCase rmsnorm_mxfp8() {
  OpCase out;
  out.op = "rmsnorm_mxfp8";
  out.rows = "m";
  out.dims = {{"k", 5120}};
  out.scalars = {{"eps", kEps}};
  out.shapes = shapes_of_rows("x[{},1280]", "m", {1, 8}, {{"k", 1280}});
  for (TimedShape& shape : shapes_of_rows("x[{},5120]", "m", {1, 8, 256, 1000, 4096})) {
    out.shapes.push_back(std::move(shape));
  }
  out.reference = [](HostCall& call, const ReferenceDevice& device) {
    const std::vector<Bf16> y = rmsnorm_of(call, device);
    call.store("y", y);
    store_mxfp8(call, y.data());
  };
  return out;
}

}  // namespace kiln::tools::cases
