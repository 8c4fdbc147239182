#pragma once

/// \file
/// The case of a small GEMM: out[m, n] = x[m, k] * w[n, k]^T.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "reference/gemm.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::cases {

/// reference::n128k512_gemm_bf16 or its like.
using GemmReference = void (*)(const reference::Bf16* x, std::int64_t x_row_stride,
                               const reference::Bf16* w, reference::Bf16* out, std::int64_t m,
                               int vector_elements);

inline OpCase gemm_case(std::string op, std::int64_t k, GemmReference gemm) {
  OpCase out;
  out.op = std::move(op);
  out.rows = "m";
  out.shapes = shapes_of_rows("m={}", "m", {1, 4, 8, 16, 32});
  out.reference = [k, gemm](HostCall& call, const ReferenceDevice& device) {
    std::vector<reference::Bf16> products(call.tensor("out").elements());
    gemm(call.data<reference::Bf16>("x"), k, call.data<reference::Bf16>("w"), products.data(),
         call.dim("m"),
         reference::vector_elements(device.capability.major * 10 + device.capability.minor));
    call.store("out", products);
  };
  return out;
}

}  // namespace kiln::tools::cases
