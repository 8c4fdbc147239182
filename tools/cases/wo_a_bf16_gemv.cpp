#include "reference/wo_a.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::cases {

// One token: --m sets g.
OpCase wo_a_bf16_gemv() {
  OpCase out;
  out.op = "wo_a_bf16_gemv";
  out.rows = "g";
  out.dims = {{"r", 128}, {"d", 1024}};
  out.shapes = {
      {"x[1,2,4096] w[2,1024,4096]", {{"g", 2}, {"r", 1024}, {"d", 4096}}},
  };
  out.reference = [](HostCall& call, const ReferenceDevice&) {
    const reference::WoAShape shape = {1, call.dim("g"), call.dim("r"), call.dim("d")};
    call.store("y", reference::wo_a_gemv(call.data<reference::Bf16>("x"),
                                         call.data<reference::Bf16>("w"), shape));
  };
  return out;
}

}  // namespace kiln::tools::cases
