#include "tools/cases/gemm_glue.hpp"

namespace kiln::tools::cases {

OpCase n128k512_gemm_bf16() {
  return gemm_case("n128k512_gemm_bf16", 512, reference::n128k512_gemm_bf16);
}

}  // namespace kiln::tools::cases
