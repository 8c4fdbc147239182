// Asks an engine for a few kernels and exits: what strace_test.py watches.
//
//   kiln_warm_kernels COUNT CACHE [LAYER...]      prints "compiled N"

#include <cstdio>
#include <cstdlib>

#include <kiln/engine.hpp>

#include "tests/support/tiny_op.hpp"

int main(int argc, char** argv) {
  if (argc < 3) {
    return 2;
  }
  const int count = std::atoi(argv[1]);
  kiln::EngineOptions options;
  options.cache_root = argv[2];
  options.read_only_layers.assign(argv + 3, argv + argc);
  options.log.callback = [](kiln::LogLevel, const char* line, void*) {
    std::fprintf(stderr, "%s\n", line);
  };
  try {
    kiln::Engine engine(options);
    engine.register_op(kiln::test::tiny_op(count));
    for (const auto& variant : engine.variants(engine.op("tiny"), kiln::parse_target("sm_90"))) {
      engine.compile(variant);
    }
    std::printf("compiled %llu\n", static_cast<unsigned long long>(engine.counters().compiles));
  } catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
