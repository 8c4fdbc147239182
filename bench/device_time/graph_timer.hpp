// Device time per call, from replays of a captured graph of back-to-back calls.
#pragma once

#include <algorithm>
#include <array>
#include <functional>

#include "bench/device_time/cuda_handles.hpp"

namespace kiln::bench {

class GraphTimer {
 public:
  static constexpr int kCalls = 100;
  static constexpr int kReplays = 20;
  static constexpr long long kDelayNanoseconds = 2'000'000;

  // `delay` is a kernel of one int64 argument that keeps the device busy for that many nanoseconds.
  explicit GraphTimer(CUfunction delay) : delay_(delay) {
    check(cuStreamCreate(stream_.out(), CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    for (Event& event : events_) {
      check(cuEventCreate(event.out(), CU_EVENT_DEFAULT), "cuEventCreate");
    }
  }

  // The stream that `call` must launch on.
  [[nodiscard]] CUstream stream() const { return stream_.get(); }

  // Captures kCalls calls into one graph.
  [[nodiscard]] GraphExec capture(const std::function<void()>& call) const {
    Graph graph;
    check(cuStreamBeginCapture(stream_.get(), CU_STREAM_CAPTURE_MODE_GLOBAL),
          "cuStreamBeginCapture");
    for (int i = 0; i < kCalls; ++i) {
      call();
    }
    check(cuStreamEndCapture(stream_.get(), graph.out()), "cuStreamEndCapture");
    GraphExec exec;
    check(cuGraphInstantiate(exec.out(), graph.get(), 0), "cuGraphInstantiate");
    check(cuGraphUpload(exec.get(), stream_.get()), "cuGraphUpload");
    return exec;
  }

  // The median over kReplays replays of the microseconds per call. All replays are queued behind a
  // delay, so that the device never waits for the host inside a measured one; two more go ahead,
  // unmeasured.
  [[nodiscard]] double microseconds_per_call(const GraphExec& exec) const {
    long long nanoseconds = kDelayNanoseconds;
    void* arguments[] = {&nanoseconds};
    check(cuLaunchKernel(delay_, 1, 1, 1, 32, 1, 1, 0, stream_.get(), arguments, nullptr),
          "cuLaunchKernel");
    for (int i = 0; i < 2; ++i) {
      check(cuGraphLaunch(exec.get(), stream_.get()), "cuGraphLaunch");
    }
    check(cuEventRecord(events_[0].get(), stream_.get()), "cuEventRecord");
    for (int i = 0; i < kReplays; ++i) {
      check(cuGraphLaunch(exec.get(), stream_.get()), "cuGraphLaunch");
      check(cuEventRecord(events_[i + 1].get(), stream_.get()), "cuEventRecord");
    }
    check(cuEventSynchronize(events_[kReplays].get()), "cuEventSynchronize");
    std::array<double, kReplays> times{};
    for (int i = 0; i < kReplays; ++i) {
      float milliseconds = 0.0F;
      check(cuEventElapsedTime(&milliseconds, events_[i].get(), events_[i + 1].get()),
            "cuEventElapsedTime");
      times[i] = milliseconds * 1000.0 / kCalls;
    }
    std::sort(times.begin(), times.end());
    return (times[kReplays / 2 - 1] + times[kReplays / 2]) / 2;
  }

 private:
  CUfunction delay_;
  Stream stream_;
  std::array<Event, kReplays + 1> events_;
};

}  // namespace kiln::bench
