#include "reference/row_argmax.hpp"

#include "tools/op_case.hpp"

namespace kiln::tools::cases {

OpCase row_argmax() {
  OpCase out;
  out.op = "row_argmax";
  out.rows = "rows";
  out.dims = {{"n", 129'280}};
  out.shapes = shapes_of_rows("[{},129280] f32", "rows", {1, 6, 32, 64, 256});
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const std::int64_t n = call.dim("n");
    call.store("out", reference::row_argmax(call.data<float>("x"), n, call.dim("rows"), n));
  };
  return out;
}

}  // namespace kiln::tools::cases
