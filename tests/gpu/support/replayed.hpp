#pragma once

#include <functional>

#include "tests/gpu/support/gpu.hpp"

namespace kiln::gpu {

/// Runs `record` on the tests' stream `rounds` times eagerly and as often as a replayed graph,
/// `reset` before and `check` after each.
inline void eagerly_and_replayed(const std::function<void()>& reset,
                                 const std::function<void()>& record,
                                 const std::function<void()>& check, int rounds = 10) {
  const Stream& stream = Gpu::instance().stream;
  for (int round = 0; round < rounds; ++round) {
    reset();
    record();
    stream.synchronize();
    check();
  }
  const Graph graph(stream, record);
  for (int round = 0; round < rounds; ++round) {
    reset();
    graph.launch(stream);
    stream.synchronize();
    check();
  }
}

}  // namespace kiln::gpu
