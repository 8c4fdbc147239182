#pragma once

/// \file
/// A picture of a run: one bar per op and shape on a logarithmic scale, with a mark for the floor
/// and one for the peer.

#include <span>
#include <string>

#include "tools/bench/report.hpp"

namespace kiln::tools::bench {

/// An SVG document that needs nothing from elsewhere. Rows without times are left out.
std::string plot_svg(std::span<const Row> rows, const std::string& title);

}  // namespace kiln::tools::bench
