#pragma once

/// \file
/// Inputs of the ops that rotate heads by position, and their reference.

#include <cmath>
#include <complex>
#include <cstdint>
#include <random>
#include <vector>

#include "reference/rope.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::cases {

/// Angles as a model has them: the table's row times a falling frequency.
inline void fill_freqs(HostTensor& freqs) {
  const auto values = freqs.as<std::complex<float>>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t position = i / 32;
    const double frequency = std::pow(10000.0, -static_cast<double>(i % 32) / 32);
    const double angle = static_cast<double>(position) * frequency;
    values[i] = {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
  }
}

/// Some of them outside a table of `rows` rows.
inline void fill_positions(HostTensor& positions, std::mt19937_64& generator, std::int64_t rows) {
  std::uniform_int_distribution<std::int64_t> any(-rows / 16, rows + rows / 16);
  if (positions.dtype == DType::kI32) {
    for (std::int32_t& position : positions.as<std::int32_t>()) {
      position = static_cast<std::int32_t>(any(generator));
    }
  } else {
    for (std::int64_t& position : positions.as<std::int64_t>()) {
      position = any(generator);
    }
  }
}

inline std::vector<std::int64_t> positions_of(const HostCall& call) {
  const HostTensor& positions = call.tensor("positions");
  if (positions.dtype == DType::kI32) {
    const auto values = positions.as<std::int32_t>();
    return {values.begin(), values.end()};
  }
  const auto values = positions.as<std::int64_t>();
  return {values.begin(), values.end()};
}

/// The heads of `arg`, rotated.
inline std::vector<reference::Bf16> rope_of(const HostCall& call, const char* arg) {
  const auto heads = call.tensor(arg).as<reference::Bf16>();
  // Pairs of floats; a complex number is such a pair.
  const auto* const freqs = reinterpret_cast<const float*>(call.data<std::complex<float>>("freqs"));
  return reference::rope({heads.begin(), heads.end()}, call.dim("heads"), {freqs, call.dim("p")},
                         positions_of(call));
}

/// What both ops have.
inline void set_rope_inputs(OpCase& out) {
  constexpr std::int64_t kPositions = 4096;
  out.rows = "rows";
  out.dims = {{"heads", 16}, {"p", kPositions}};
  out.fills["freqs"] = [](HostTensor& tensor, const auto&...) { fill_freqs(tensor); };
  out.fills["positions"] = [](HostTensor& tensor, std::mt19937_64& generator, const auto&...) {
    fill_positions(tensor, generator, kPositions);
  };
}

}  // namespace kiln::tools::cases
