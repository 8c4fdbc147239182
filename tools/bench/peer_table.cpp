#include "tools/bench/peer_table.hpp"

#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <kiln/error.hpp>

namespace kiln::tools::bench {
namespace {

using Cells = std::vector<std::string>;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  const std::size_t last = text.find_last_not_of(" \t\r");
  return first == std::string_view::npos ? std::string()
                                         : std::string(text.substr(first, last - first + 1));
}

// "| a | b |" is {"a", "b"}; what follows the last bar is no cell.
Cells split_row(std::string_view line) {
  Cells cells;
  line.remove_prefix(1);
  for (std::size_t bar = line.find('|'); bar != std::string_view::npos; bar = line.find('|')) {
    cells.push_back(trimmed(line.substr(0, bar)));
    line.remove_prefix(bar + 1);
  }
  return cells;
}

// The number that `text` begins with.
std::optional<double> leading_number(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

// What the columns after the first two hold.
struct Columns {
  bool by_rows = false;  // The second column is m.
  int device = -1;
  int device_pdl = -1;
  int host = -1;

  bool any() const { return device >= 0 || device_pdl >= 0 || host >= 0; }
};

Columns read_header(const Cells& header) {
  Columns columns;
  if (header.size() < 3 || header[0] != "op" || (header[1] != "shape" && header[1] != "m")) {
    return columns;
  }
  columns.by_rows = header[1] == "m";
  for (std::size_t i = 2; i < header.size(); ++i) {
    if (!contains(header[i], "peer")) {
      continue;
    }
    int& column = contains(header[i], "host")     ? columns.host
                  : contains(header[i], "PDL on") ? columns.device_pdl
                                                  : columns.device;
    column = static_cast<int>(i);
  }
  return columns;
}

// A cell is a number, or "-" for none.
std::optional<double> read_time(const Cells& row, int column) {
  if (column < 0 || static_cast<std::size_t>(column) >= row.size()) {
    return std::nullopt;
  }
  const std::string& text = row[static_cast<std::size_t>(column)];
  if (text == "-") {
    return std::nullopt;
  }
  const std::optional<double> value = leading_number(text);
  if (!value || !(*value > 0)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("\"{}\" in the row of {} {} is no time in microseconds", text, row[0], row[1]));
  }
  return value;
}

// "0.54 us; 0.43 us when each node waits and triggers under the PDL attribute".
std::optional<std::pair<double, double>> read_empty_node(const Cells& row) {
  if (row.size() < 2 || !row[0].starts_with("one graph node, empty kernel")) {
    return std::nullopt;
  }
  const std::size_t semicolon = row[1].find(';');
  const auto plain = leading_number(row[1]);
  const auto pdl = semicolon == std::string::npos
                       ? std::nullopt
                       : leading_number(trimmed(std::string_view(row[1]).substr(semicolon + 1)));
  return plain && pdl ? std::optional(std::pair(*plain, *pdl)) : std::nullopt;
}

}  // namespace

PeerTable PeerTable::parse(std::string_view markdown) {
  PeerTable table;
  std::istringstream lines{std::string(markdown)};
  Columns columns;
  bool in_table = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('|')) {
      in_table = false;
      continue;
    }
    const Cells row = split_row(line);
    if (!in_table) {
      columns = read_header(row);
      in_table = true;
    } else if (const auto empty = read_empty_node(row)) {
      table.empty_us_ = empty->first;
      table.empty_pdl_us_ = empty->second;
    } else if (columns.any() && row.size() > 2 && !row[0].starts_with("--")) {
      const PeerTime time{read_time(row, columns.device), read_time(row, columns.device_pdl),
                          read_time(row, columns.host)};
      if (time.device_us || time.device_pdl_us) {
        table.times_[{row[0], (columns.by_rows ? "m=" : "") + row[1]}] = time;
      }
    }
  }
  if (table.times_.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "there is no table of peer times: one whose first columns are \"op\" and "
                "\"shape\" or \"m\", with another whose title says \"peer\"");
  }
  return table;
}

PeerTable PeerTable::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw Error(ErrorCode::kIo, fmt::format("{} cannot be read", path));
  }
  try {
    return parse(text.str());
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path, error.what()));
  }
}

std::optional<PeerTime> PeerTable::find(const std::string& op, const std::string& shape) const {
  const auto found = times_.find({op, shape});
  return found != times_.end() ? std::optional(found->second) : std::nullopt;
}

}  // namespace kiln::tools::bench
