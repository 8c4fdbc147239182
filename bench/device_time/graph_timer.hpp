#pragma once

/// \file
/// Device time per call, from replays of a captured graph of back-to-back calls.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>

#include "tests/gpu/support/cuda.hpp"

namespace kiln::bench {

/// Captures and times on one stream of the current context.
class GraphTimer {
 public:
  static constexpr std::size_t kCalls = 100;
  static constexpr std::size_t kReplays = 20;
  static constexpr std::int64_t kDelayNanoseconds = 2'000'000;

  /// `delay(nanoseconds, stream)` keeps the device busy for that long.
  using Delay = std::function<void(std::int64_t, CUstream)>;
  explicit GraphTimer(Delay delay) : delay_(std::move(delay)) {}

  CUstream stream() const { return stream_.get(); }

  /// The median over kReplays replays of the microseconds per call; `call` launches on stream().
  /// All replays are queued behind a delay, so that the device never waits for the host inside a
  /// measured one; two more go ahead, unmeasured.
  double microseconds_per_call(const std::function<void()>& call) const {
    const gpu::Graph graph(stream_, [&] {
      for (std::size_t i = 0; i < kCalls; ++i) {
        call();
      }
    });
    delay_(kDelayNanoseconds, stream_.get());
    graph.launch(stream_);
    graph.launch(stream_);
    events_[0].record(stream_);
    for (std::size_t i = 0; i < kReplays; ++i) {
      graph.launch(stream_);
      events_[i + 1].record(stream_);
    }
    events_[kReplays].synchronize();
    std::array<double, kReplays> times{};
    for (std::size_t i = 0; i < kReplays; ++i) {
      times[i] = static_cast<double>(events_[i + 1].since(events_[i])) * 1000.0 / kCalls;
    }
    std::sort(times.begin(), times.end());
    return (times[kReplays / 2 - 1] + times[kReplays / 2]) / 2;
  }

 private:
  Delay delay_;
  gpu::Stream stream_;
  std::array<gpu::Event, kReplays + 1> events_;
};

}  // namespace kiln::bench
