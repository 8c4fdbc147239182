// Skips the whole executable when there is no device, with the reason and the exit code that ctest
// takes for "skipped". Exit code 0 means that every selected test ran.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include <cstdio>
#include <string>

#include "tests/gpu/support/cuda.hpp"
#include "tests/gpu/support/exit_child.hpp"
#include "tests/support/catch.hpp"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  if (argc == 3 && std::string(argv[1]) == kiln::gpu::kExitChildFlag) {
    return kiln::gpu::exit_with_a_graph_alive(argv[2]);
  }
  const std::string reason = kiln::gpu::why_no_device();
  if (!reason.empty()) {
    std::printf("skipped: GPU tests need a CUDA device and %s\n", reason.c_str());
    return kSkipped;
  }
  // Current from here on, so that a test may make buffers before anything else.
  const kiln::gpu::Context context;
  return Catch::Session().run(argc, argv);
}
