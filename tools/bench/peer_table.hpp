#pragma once

/// \file
/// Times to compare with, read from the Markdown tables of docs/peer_h200.md as they are.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace kiln::tools::bench {

/// A peer's times of one op at one shape, in microseconds.
struct PeerTime {
  std::optional<double> device_us;      ///< As the peer's wrapper launches it.
  std::optional<double> device_pdl_us;  ///< Of a peer that was timed with PDL on and off.
  std::optional<double> host_us;

  /// The one to compare a run with.
  std::optional<double> device(bool pdl) const {
    return pdl && device_pdl_us ? device_pdl_us : device_us;
  }
};

class PeerTable {
 public:
  /// Takes every table whose columns begin with "op" and "shape" or "m" (a shape is then called
  /// "m=8") and that has columns of peer times, and the row "one graph node, empty kernel" of any
  /// table. Throws Error(kInvalidArgument) for a number that is none, or when there is no such
  /// table.
  static PeerTable parse(std::string_view markdown);
  /// Throws Error(kIo) when the file cannot be read; parse's errors name the file.
  static PeerTable read(const std::string& path);

  std::optional<PeerTime> find(const std::string& op, const std::string& shape) const;
  /// One graph node of an empty kernel, with and without PDL, in microseconds.
  std::optional<double> empty_node_us(bool pdl) const { return pdl ? empty_pdl_us_ : empty_us_; }

 private:
  std::map<std::pair<std::string, std::string>, PeerTime> times_;
  std::optional<double> empty_us_;
  std::optional<double> empty_pdl_us_;
};

}  // namespace kiln::tools::bench
