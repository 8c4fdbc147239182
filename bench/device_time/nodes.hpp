#pragma once

/// \file
/// Ops of one small block that every device benchmark needs: an empty node, whose time calibrates a
/// run, and a delay that keeps the device busy until the host has queued its work. And the rounds
/// in which calls are timed.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <kiln/engine.hpp>

#include "bench/device_time/baseline_source.hpp"
#include "bench/device_time/graph_timer.hpp"

namespace kiln::bench {

/// A kernel of bench/baselines/peer_gemm.cuh.
inline KernelSpec baseline_kernel(std::string instantiation) {
  KernelSpec kernel;
  kernel.name = "baseline";
  kernel.source = "peer_gemm.cuh";
  kernel.instantiation = std::move(instantiation);
  return kernel;
}

// An op of one small block, with one tensor that only says which device it runs on.
inline Op one_block_op(const std::string& name) {
  ArgSpec where;
  where.name = "where";
  where.dtypes = {DType::kBF16};
  where.shape = {"count"};
  Op op;
  op.name = name;
  op.family = "baseline";
  op.summary = "A kernel of one small block.";
  op.args = {where};
  op.choose = [](const Problem&, Traits&) {};
  op.sources = {{"peer_gemm.cuh", kPeerGemmSource}};
  return op;
}

inline Geometry one_block(const Problem&, const Traits&) {
  return {.grid = {1, 1, 1}, .block = {32, 1, 1}, .cluster = {}};
}

inline Op empty_op() {
  Op op = one_block_op("empty");
  op.traits = {TraitSpec::boolean(std::string(kPdlTrait), "programmatic dependent launch")};
  KernelSpec kernel = baseline_kernel("kiln_bench::empty<{PDL}>");
  kernel.params = {Param::data("where")};
  kernel.geometry = one_block;
  op.kernels = {kernel};
  return op;
}

inline Op delay_op() {
  Op op = one_block_op("delay");
  ArgSpec nanoseconds;
  nanoseconds.name = "nanoseconds";
  op.args.push_back(nanoseconds);
  KernelSpec kernel = baseline_kernel("kiln_bench::delay");
  kernel.params = {Param::data("where"), Param::scalar("nanoseconds")};
  kernel.geometry = one_block;
  op.kernels = {kernel};
  return op;
}

using Calls = std::vector<std::function<void()>>;

/// The median over `rounds` rounds of each call's time; rounds take turns, so that a drift of the
/// clocks meets all alike.
inline std::vector<double> times(const GraphTimer& timer, const Calls& calls,
                                 std::size_t rounds = 5) {
  std::vector<std::vector<double>> samples(calls.size());
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      samples[i].push_back(timer.microseconds_per_call(calls[i]));
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& sample : samples) {
    std::sort(sample.begin(), sample.end());
    medians.push_back(sample[rounds / 2]);
  }
  return medians;
}

/// Times the empty node and says whether this run compares with docs/peer_h200.md. The engines have
/// empty_op; the first uses PDL, the second does not.
inline void calibrate(const GraphTimer& timer, std::array<Engine, 2>& engines,
                      const Tensor& where) {
  // From docs/peer_h200.md: a run further away than kTolerance is not comparable with that table.
  constexpr double kEmptyNodeUs = 0.54;
  constexpr double kEmptyPdlNodeUs = 0.43;
  constexpr double kTolerance = 0.05;
  Calls calls;
  for (Engine& engine : engines) {
    engine.launch("empty", {where}, timer.stream());
    calls.push_back([&] { engine.launch("empty", {where}, timer.stream()); });
  }
  const std::vector<double> t = times(timer, calls);
  const double off_by =
      std::max(std::abs(t[0] / kEmptyPdlNodeUs - 1), std::abs(t[1] / kEmptyNodeUs - 1));
  std::printf(
      "\nempty node: %.3f us with PDL (table: %.2f), %.3f us without (table: %.2f): %.1f%% "
      "off the table, %s\n",
      t[0], kEmptyPdlNodeUs, t[1], kEmptyNodeUs, off_by * 100,
      off_by <= kTolerance ? "comparable" : "VOID");
}

}  // namespace kiln::bench
