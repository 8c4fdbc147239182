#pragma once

#include <string>
#include <vector>

#include "runtime/nvrtc/toolchain.hpp"

namespace kiln::runtime {

/// A folder in which libnvrtc may lie.
struct SearchFolder {
  std::string path;
  std::string origin;  ///< Why it is looked at: "LD_LIBRARY_PATH", "CUDA_HOME", ...
};

/// The folders of LD_LIBRARY_PATH, in order. An empty element (the working directory) is left to
/// the dynamic loader.
std::vector<SearchFolder> loader_folders(const ToolchainInputs& inputs);

/// The usual folders of CUDA toolkits, then those of Python wheels, in the order in which they are
/// searched. Folders of several toolkit or Python versions come newest first.
std::vector<SearchFolder> usual_folders(const ToolchainInputs& inputs);

}  // namespace kiln::runtime
