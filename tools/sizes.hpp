#pragma once

/// \file
/// Which ops and architectures the bytes of a set of kernels are of.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "tools/console.hpp"

namespace kiln::tools {

struct Sizes {
  struct Group {
    std::string op;
    std::string arch;
    std::size_t kernels = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Group&) const = default;
  };
  struct Kernel {
    std::string name;
    std::uint64_t bytes = 0;
    bool operator==(const Kernel&) const = default;
  };
  std::uint64_t bytes = 0;
  std::size_t kernels = 0;
  std::vector<Group> groups;    ///< One per op and architecture, the largest first.
  std::vector<Kernel> largest;  ///< Ten at most, the largest first.
};

/// Of the kernels' cubins, as they lie in a cache directory: kernels that were compiled together
/// have one image, and each has it in a file of its own. Names are those that to_string(Variant)
/// gives.
Sizes sizes_of(const std::vector<KernelInfo>& kernels);

void print_sizes(const Sizes& sizes);
Json to_json(const Sizes& sizes);

}  // namespace kiln::tools
