#include "tools/bench/report.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace kiln::tools::bench {
namespace {

std::string number(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : "-";
}

Json json_of(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

Row make_row(Measurement measured, const std::optional<PeerTable>& peers, bool pdl) {
  const auto peer = peers ? peers->find(measured.op, measured.shape) : std::nullopt;
  Row row{std::move(measured), {}, {}};
  if (peer) {
    row.peer_us = peer->device(pdl);
    row.peer_host_us = peer->host_us;
  }
  return row;
}

double Calibration::off_by() const {
  return std::max(std::abs(measured.pdl_us / table->pdl_us - 1),
                  std::abs(measured.plain_us / table->plain_us - 1));
}

Calibration make_calibration(const EmptyNodes& measured, const std::optional<PeerTable>& peers) {
  Calibration out{measured, {}};
  if (peers && peers->empty_node_us(true) && peers->empty_node_us(false)) {
    out.table = EmptyNodes{*peers->empty_node_us(true), *peers->empty_node_us(false)};
  }
  return out;
}

std::string calibration_line(const Calibration& c) {
  if (!c.table) {
    return fmt::format(
        "empty node: {:.3f} us with PDL, {:.3f} us without; no table to compare with",
        c.measured.pdl_us, c.measured.plain_us);
  }
  return fmt::format(
      "empty node: {:.3f} us with PDL (table: {:.2f}), {:.3f} us without (table: {:.2f}): {:.1f}% "
      "off the table, {}",
      c.measured.pdl_us, c.table->pdl_us, c.measured.plain_us, c.table->plain_us, c.off_by() * 100,
      c.comparable() ? "comparable" : "NOT comparable");
}

std::string header_lines(bool peers) {
  const std::string first = fmt::format("| {:<22} | {:<24} | {:>9} | {:>9} | {:>7} | {:>8} |", "op",
                                        "shape", "device us", "floor us", "x floor", "host us");
  const std::string second =
      fmt::format("|{:-<24}|{:-<26}|{:->10}:|{:->10}:|{:->8}:|{:->9}:|", "", "", "", "", "", "");
  return first + (peers ? fmt::format(" {:>8} | {:>7} |", "peer us", "x peer") : "") + "\n" +
         second + (peers ? fmt::format("{:->9}:|{:->8}:|", "", "") : "") + "\n";
}

std::string row_line(const Row& row, bool peers) {
  const Measurement& m = row.measured;
  const std::string name = fmt::format("| {:<22} | {:<24} |", m.op, m.shape);
  if (!row.timed()) {
    return fmt::format("{} {}\n", name, m.error);
  }
  const std::string times = fmt::format(" {:>9.3f} | {:>9.3f} | {:>7.3f} | {:>8.2f} |", m.device_us,
                                        m.floor_us, row.floor_ratio(), m.host_us);
  const std::string peer =
      fmt::format(" {:>8} | {:>7} |", number(row.peer_us, 2), number(row.peer_ratio(), 3));
  return name + times + (peers ? peer : "") + "\n";
}

Json to_json(const Calibration& c) {
  Json out = {{"pdl_us", c.measured.pdl_us}, {"plain_us", c.measured.plain_us}};
  if (c.table) {
    out["table_pdl_us"] = c.table->pdl_us;
    out["table_plain_us"] = c.table->plain_us;
    out["off_by"] = c.off_by();
    out["comparable"] = c.comparable();
  }
  return out;
}

Json to_json(const Row& row) {
  const Measurement& m = row.measured;
  Json out = {{"op", m.op},
              {"shape", m.shape},
              {"bytes", m.bytes},
              {"sets", m.sets},
              {"floor_us", m.floor_us},
              {"peer_us", json_of(row.peer_us)},
              {"peer_host_us", json_of(row.peer_host_us)}};
  if (row.timed()) {
    out["device_us"] = m.device_us;
    out["host_us"] = m.host_us;
    out["floor_ratio"] = row.floor_ratio();
    out["peer_ratio"] = json_of(row.peer_ratio());
  } else {
    out["error"] = m.error;
  }
  return out;
}

}  // namespace kiln::tools::bench
