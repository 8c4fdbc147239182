#pragma once

/// \file
/// Times every variant of an op at every shape, with several grids, so that what the registry
/// chooses can be held against what is best.

#include <array>
#include <string>

#include <kiln/engine.hpp>

#include "bench/device_time/graph_timer.hpp"

namespace kiln::bench {

/// Prints one line for each variant and grid of each op whose name is `only`, or of all when it is
/// empty, best first for each shape; what the registry chooses is marked. Throws when two variants
/// differ in a bit. The engine must use PDL.
void sweep(Engine& engine, const GraphTimer& timer, const std::string& only);

}  // namespace kiln::bench
