#pragma once

/// \file
/// What an engine has done so far.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/cpp/error.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

/// Counts since the engine was made: those of kiln_counters, which says what each is, and those of
/// each cache layer. A snapshot; counts only grow.
struct Counters : kiln_counters {
  /// What one directory or pack served.
  struct Layer {
    std::string path;
    std::uint64_t hits = 0;
  };
  std::vector<Layer> cache_layers;  ///< In the order in which they are asked.
};

namespace detail {

inline Counters counters_of(kiln_engine* engine) {
  Counters counters{};
  static_cast<kiln_counters&>(counters) = sized<kiln_counters>();
  check(kiln_engine_counters(engine, &counters));
  std::size_t layers = 0;
  check(kiln_cache_layer_count(engine, &layers));
  for (std::size_t i = 0; i < layers; ++i) {
    kiln_cache_layer layer = sized<kiln_cache_layer>();
    check(kiln_cache_layer_at(engine, i, &layer));
    counters.cache_layers.push_back({layer.path, layer.hits});
  }
  return counters;
}

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
