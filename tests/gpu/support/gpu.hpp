#pragma once

#include <cstdio>

#include <kiln/engine.hpp>

#include "reference/gemm.hpp"
#include "tests/gpu/support/cuda.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::gpu {

/// What every GPU test needs: device 0's context, an engine on a fresh cache, and a stream. One for
/// the whole program, since each variant should be compiled once, not once per test.
class Gpu {
 public:
  static Gpu& instance() {
    static Gpu gpu;
    return gpu;
  }

  Context context;
  test::TempDir cache;
  Engine engine;
  Stream stream;

  /// The target whose cubins the engine loads here first.
  Target target() const {
    return Target{context.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                  context.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
                  TargetSuffix::kArch};
  }
  /// Elements of bf16 in one vector of the order of summation (docs/kernel_contracts.md, section
  /// 1).
  int vector_elements() const {
    return static_cast<int>(reference::vector_elements(target().compute_capability()));
  }

 private:
  Gpu() : engine(options(cache)) {}

  static EngineOptions options(const test::TempDir& cache) {
    EngineOptions options;
    options.cache_root = cache.str();
    options.log.level = LogLevel::kWarning;
    options.log.callback = [](LogLevel, const char* message, void*) {
      std::fprintf(stderr, "kiln: %s\n", message);
    };
    return options;
  }
};

}  // namespace kiln::gpu
