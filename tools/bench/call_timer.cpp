#include "tools/bench/call_timer.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/result.hpp"

namespace kiln::tools::bench {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

CallTimer::CallTimer(const std::shared_ptr<const runtime::Driver>& driver, Delay delay)
    : api_(driver),
      delay_(std::move(delay)),
      stream_(value_or_throw(runtime::Stream::create(driver))) {
  for (std::size_t i = 0; i <= kReplays; ++i) {
    events_.emplace_back(api_);
  }
}

double CallTimer::device_us(const Call& call) {
  const CUstream stream = stream_.get();
  const Graph graph(api_, stream, [&] {
    for (std::size_t i = 0; i < kGraphCalls; ++i) {
      call(stream_, i);
    }
  });
  value_or_throw(stream_.synchronize());
  delay_(stream_, kDelayNanoseconds);
  graph.launch(stream);
  graph.launch(stream);
  events_[0].record(stream);
  for (std::size_t i = 0; i < kReplays; ++i) {
    graph.launch(stream);
    events_[i + 1].record(stream);
  }
  events_[kReplays].synchronize();
  std::vector<double> times;
  for (std::size_t i = 0; i < kReplays; ++i) {
    times.push_back(events_[i + 1].microseconds_since(events_[i]) / kGraphCalls);
  }
  return median(std::move(times));
}

double CallTimer::host_us(const Call& call) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (std::size_t batch = 0; batch <= kHostBatches; ++batch) {
    const Clock::time_point begin = Clock::now();
    for (std::size_t i = 0; i < kHostCalls; ++i) {
      call(stream_, i);
    }
    const std::chrono::duration<double, std::micro> taken = Clock::now() - begin;
    value_or_throw(stream_.synchronize());
    if (batch > 0) {
      times.push_back(taken.count() / kHostCalls);
    }
  }
  return median(std::move(times));
}

}  // namespace kiln::tools::bench
