#pragma once

/// \file
/// Device and host time of a call, measured as docs/peer_h200.md says.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/driver/handles.hpp"
#include "tools/bench/graph_api.hpp"

namespace kiln::tools::bench {

/// Captures and times on one stream of the current context. Throws Error.
class CallTimer {
 public:
  static constexpr std::size_t kGraphCalls = 100;
  static constexpr std::size_t kReplays = 20;
  static constexpr std::size_t kHostCalls = 200;
  static constexpr std::size_t kHostBatches = 10;
  static constexpr std::int64_t kDelayNanoseconds = 5'000'000;

  /// Keeps the device busy for so many nanoseconds.
  using Delay = std::function<void(runtime::Stream&, std::int64_t)>;
  /// Launches the i-th call on the stream.
  using Call = std::function<void(runtime::Stream&, std::size_t)>;

  CallTimer(const std::shared_ptr<const runtime::Driver>& driver, Delay delay);
  ~CallTimer() = default;
  CallTimer(const CallTimer&) = delete;  // The events point to the API.
  CallTimer& operator=(const CallTimer&) = delete;

  runtime::Stream& stream() noexcept { return stream_; }

  /// The median over kReplays replays of a graph of kGraphCalls calls, per call. All replays are
  /// queued behind a delay, so that the device never waits for the host inside a measured one; two
  /// more go ahead, unmeasured.
  double device_us(const Call& call);

  /// The median over kHostBatches batches of kHostCalls asynchronous calls, per call; one more goes
  /// ahead, unmeasured. The device is idle when a batch begins.
  double host_us(const Call& call);

 private:
  GraphApi api_;
  Delay delay_;
  runtime::Stream stream_;
  std::vector<Event> events_;  // kReplays + 1
};

}  // namespace kiln::tools::bench
