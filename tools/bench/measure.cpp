#include "tools/bench/measure.hpp"

#include <exception>

#include <fmt/format.h>

#include "base/result.hpp"
#include "runtime/engine_impl.hpp"
#include "tools/bench/cost.hpp"
#include "tools/bench/probes.hpp"

namespace kiln::tools::bench {
namespace {

constexpr std::size_t kWhereBytes = 256;
constexpr std::int64_t kWarmUpNanoseconds = 300'000'000;

Tensor where_tensor(const runtime::DeviceMemory& memory) {
  return {memory.data(), DType::kU8, {static_cast<std::int64_t>(kWhereBytes)}};
}

std::vector<std::vector<std::byte>> outputs(const HostCall& call, const DeviceCall& device_call) {
  std::vector<std::vector<std::byte>> out;
  for (std::size_t i = 0; i < call.tensors().size(); ++i) {
    if (call.tensors()[i].is_output()) {
      out.push_back(device_call.download(i));
    }
  }
  return out;
}

}  // namespace

Bench::Bench(Engine& engine, const Settings& settings)
    : engine_(&engine),
      settings_(settings),
      driver_(value_or_throw(engine.impl().driver())),
      device_(value_or_throw(driver_->device(0))->name),
      context_(value_or_throw(runtime::PrimaryContext::retain(driver_, 0))),
      where_(value_or_throw(runtime::DeviceMemory::allocate(driver_, kWhereBytes))),
      timer_(driver_, [this](runtime::Stream& stream, std::int64_t nanoseconds) {
        engine_->launch("bench_delay", {where_tensor(where_), nanoseconds}, stream.get());
      }) {
  engine.register_op(empty_op());
  engine.register_op(delay_op());
  // Loads it, and lets the clocks of an idle device rise before anything is measured.
  engine.launch("bench_delay", {where_tensor(where_), kWarmUpNanoseconds}, timer_.stream().get());
  value_or_throw(timer_.stream().synchronize());
}

EmptyNodes Bench::empty_nodes() {
  const OpHandle op = engine_->op("bench_empty");
  const Tensor where = where_tensor(where_);
  const auto node_us = [&](bool pdl) {
    const Arg args[] = {where};
    const auto launch = [&](runtime::Stream& stream, std::size_t) {
      engine_->launch(op, args, stream.get(), {.pdl = pdl});
    };
    launch(timer_.stream(), 0);
    return timer_.device_us(launch);
  };
  return {node_us(true), node_us(false)};
}

Measurement Bench::measure(const OpCase& op_case, const TimedShape& shape) {
  Measurement out;
  out.op = op_case.op;
  out.shape = shape.text;
  try {
    const HostCall call(Engine::Impl::bound(engine_->op(op_case.op)), op_case,
                        {.dims = shape.dims, .dtypes = {}, .with = shape.with});
    out.bytes = call.traffic();
    out.sets = set_count(out.bytes);
    out.floor_us = floor_us(out.bytes, settings_.terabytes_per_second);
    measure(call, out);
  } catch (const std::exception& error) {
    out.error = error.what();
  }
  return out;
}

void Bench::measure(const HostCall& call, Measurement& out) {
  std::vector<DeviceCall> sets;
  sets.reserve(out.sets);
  for (std::size_t i = 0; i < out.sets; ++i) {
    sets.emplace_back(*engine_, driver_, call);
  }
  require_equal_outputs(call, sets.front());
  const auto launch = [&](runtime::Stream& stream, std::size_t i) {
    sets[i % sets.size()].launch(stream, settings_.pdl);
  };
  out.device_us = timer_.device_us(launch);
  out.host_us = timer_.host_us(launch);
}

void Bench::require_equal_outputs(const HostCall& call, DeviceCall& device_call) {
  runtime::Stream& stream = timer_.stream();
  const auto run = [&](bool pdl, unsigned char poison) {
    device_call.reset(poison);
    device_call.launch(stream, pdl);
    value_or_throw(stream.synchronize());
    return outputs(call, device_call);
  };
  // An element that is not written keeps its poison, and the two differ.
  if (run(true, 0xFF) != run(false, 0xA5)) {
    throw Error(ErrorCode::kInternal,
                fmt::format("two calls of {} on the same inputs, with PDL and without, gave "
                            "different outputs; nothing was timed",
                            call.op().name));
  }
}

}  // namespace kiln::tools::bench
