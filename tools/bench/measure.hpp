#pragma once

/// \file
/// Measures ops at their shapes on device 0.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/driver/handles.hpp"
#include "tools/bench/call_timer.hpp"
#include "tools/device_call.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::bench {

struct Settings {
  bool pdl = true;
  double terabytes_per_second = 4.3;  ///< For the floor.
};

/// One graph node of an empty kernel.
struct EmptyNodes {
  double pdl_us = 0;
  double plain_us = 0;
};

/// One op at one shape.
struct Measurement {
  std::string op;
  std::string shape;
  std::size_t bytes = 0;  ///< Moved by a call at least.
  std::size_t sets = 0;   ///< Of tensors, which the calls take in turn.
  double floor_us = 0;
  double device_us = 0;
  double host_us = 0;
  std::string error;  ///< Empty, or why there are no times.
};

class Bench {
 public:
  /// Adds two ops to the engine, which must outlive this. Throws Error when there is no device that
  /// can be timed.
  Bench(Engine& engine, const Settings& settings);
  ~Bench() = default;
  Bench(const Bench&) = delete;  // The timer's delay points to this.
  Bench& operator=(const Bench&) = delete;

  const std::string& device() const noexcept { return device_; }
  EmptyNodes empty_nodes();
  /// Times nothing before two calls, one with PDL and one without, have given the same bits on
  /// outputs poisoned differently. What goes wrong is in the measurement.
  Measurement measure(const OpCase& op_case, const TimedShape& shape);

 private:
  void measure(const HostCall& call, Measurement& out);
  void require_equal_outputs(const HostCall& call, DeviceCall& device_call);

  Engine* engine_;
  Settings settings_;
  std::shared_ptr<const runtime::Driver> driver_;
  std::string device_;
  runtime::PrimaryContext context_;
  runtime::DeviceMemory where_;  // Of the probes' tensor.
  CallTimer timer_;
};

}  // namespace kiln::tools::bench
