#pragma once

/// \file
/// The same calls through the C++ door, in a file of their own: the library's classes have the
/// door's names.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kiln::bench {

/// Launches the benchmark's call so many times on a stream.
using Batch = std::function<void(int, void*)>;

struct DoorBatches {
  Batch plan;    ///< Plan::launch.
  Batch engine;  ///< Engine::launch, by name.
};

/// With an engine of its own. `tensors` are x, w and out of n128k512_gemm_bf16 at m = `rows`; an
/// empty path is the engine's default.
DoorBatches door_batches(const std::string& cache_root, const std::string& driver,
                         const std::vector<void*>& tensors, std::int64_t rows);

}  // namespace kiln::bench
