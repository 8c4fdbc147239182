#include "tools/cases/gemm_glue.hpp"

namespace kiln::tools::cases {

OpCase n32k5120_gemm_bf16() {
  return gemm_case("n32k5120_gemm_bf16", 5120, reference::n32k5120_gemm_bf16);
}

}  // namespace kiln::tools::cases
