#pragma once

/// \file
/// What an engine does and how long it takes: a file that Chrome's and Perfetto's viewers open, and
/// ranges for a profiler.

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/logger.hpp"
#include "runtime/nvtx.hpp"
#include "runtime/worker/descriptor.hpp"

namespace kiln::runtime {

/// Named values of one event.
class TraceArgs {
 public:
  TraceArgs& add(std::string_view key, std::string_view value);
  TraceArgs& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  TraceArgs& add(std::string_view key, bool value);
  TraceArgs& add(std::string_view key, double value);
  template <std::integral Value>
  requires(!std::same_as<Value, bool>) TraceArgs& add(std::string_view key, Value value) {
    return add_integer(key, static_cast<std::int64_t>(value));
  }

  /// The members of a JSON object, without its braces.
  const std::string& json() const noexcept { return json_; }

 private:
  TraceArgs& add_integer(std::string_view key, std::int64_t value);
  TraceArgs& add_raw(std::string_view key, std::string_view json);

  std::string json_;
};

/// Appends events to a file in Chrome's trace format, the JSON array form, whose closing bracket
/// may be missing. Each event is one line by one write to a file opened for appending, so that
/// several processes may share one; times are CLOCK_MONOTONIC's, which all of a machine share. When
/// off, an event costs one branch. A file that cannot be written is one warning, and off.
/// Thread-safe.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;

  /// "%p" in the path stands for the process id. An empty path: off.
  Trace(const std::string& path, const Logger& logger);
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }

  /// Something that began at `start` and ends now, on this thread.
  void complete(std::string_view name, std::string_view category, Clock::time_point start,
                const TraceArgs& args = {}) noexcept {
    if (on()) {
      write_complete(name, category, start, args);
    }
  }

 private:
  /// Opens the file and begins the array when nobody has; why not, when that fails.
  std::string open();
  std::string begin_array() const;
  void write_complete(std::string_view name, std::string_view category, Clock::time_point start,
                      const TraceArgs& args) noexcept;
  void write_process_name();
  void write_line(const std::string& line);
  void stop(std::string_view why);

  Logger logger_;
  std::string path_;
  Descriptor file_;
  std::atomic<bool> on_{false};
};

/// An event from construction to destruction, and a range that a profiler sees, also where the
/// trace is off.
class TraceSpan {
 public:
  /// The texts must outlive the span.
  TraceSpan(Trace& trace, std::string_view name, std::string_view category) noexcept
      : range_(category, name),
        trace_(trace.on() ? &trace : nullptr),
        name_(name),
        category_(category) {
    if (trace_ != nullptr) {
      start_ = Trace::Clock::now();
    }
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (trace_ != nullptr) {
      trace_->complete(name_, category_, start_, args_);
    }
  }

  /// Whether an argument that is costly to make is worth making.
  bool on() const noexcept { return trace_ != nullptr; }
  template <class Value>
  TraceSpan& arg(std::string_view key, const Value& value) {
    if (on()) {
      args_.add(key, value);
    }
    return *this;
  }

 private:
  ToolRange range_;
  Trace* trace_;
  std::string_view name_;
  std::string_view category_;
  Trace::Clock::time_point start_;
  TraceArgs args_;
};

}  // namespace kiln::runtime
