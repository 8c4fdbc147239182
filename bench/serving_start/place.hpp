#pragma once

/// \file
/// The folder in which the parent process leaves what its children load.

#include <span>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

namespace kiln::bench {

/// One image and the kernels that are taken from it.
struct Image {
  std::string path;
  std::vector<std::string> symbols;
};

/// What every child of one run is given.
struct Place {
  std::string folder;
  std::string driver;     ///< As EngineOptions::driver.
  std::string directory;  ///< A cache directory that holds everything.

  std::string pack() const { return folder + "/kernels.pack"; }
  std::string empty_root() const { return folder + "/empty"; }

  /// Writes the names of the ops, the images of their variants (each once, as the driver is given
  /// it) and the pack. Throws Error, for a kernel that the directory lacks, too.
  void fill(std::span<const std::string> ops, std::span<const Variant> variants) const;

  std::vector<std::string> ops() const;
  std::vector<Image> images() const;
};

/// Every variant of these ops for the best target of the current context's device.
std::vector<Variant> every_variant(Engine& engine, std::span<const std::string> ops);

}  // namespace kiln::bench
