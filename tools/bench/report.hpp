#pragma once

/// \file
/// What `kiln bench` prints: one line that says whether the run compares with the table, then one
/// row per op and shape.

#include <optional>
#include <string>
#include <vector>

#include "tools/bench/measure.hpp"
#include "tools/bench/peer_table.hpp"
#include "tools/console.hpp"

namespace kiln::tools::bench {

/// A measurement and what it is compared with.
struct Row {
  Measurement measured;
  std::optional<double> peer_us;
  std::optional<double> peer_host_us;

  bool timed() const noexcept { return measured.error.empty(); }
  double floor_ratio() const noexcept { return measured.device_us / measured.floor_us; }
  std::optional<double> peer_ratio() const {
    return peer_us ? std::optional(measured.device_us / *peer_us) : std::nullopt;
  }
};

Row make_row(Measurement measured, const std::optional<PeerTable>& peers, bool pdl);

/// How far the empty nodes of this run are off those of the table.
struct Calibration {
  static constexpr double kTolerance = 0.05;

  EmptyNodes measured;
  std::optional<EmptyNodes> table;  ///< None: there is nothing to compare with.

  double off_by() const;  ///< The larger of both, 0.03 for 3%. Requires table.
  bool comparable() const { return table && off_by() <= kTolerance; }
};

Calibration make_calibration(const EmptyNodes& measured, const std::optional<PeerTable>& peers);

std::string calibration_line(const Calibration& calibration);
/// Of a Markdown table, padded so that it can be read as it is.
std::string header_lines(bool peers);
std::string row_line(const Row& row, bool peers);

Json to_json(const Calibration& calibration);
Json to_json(const Row& row);

}  // namespace kiln::tools::bench
