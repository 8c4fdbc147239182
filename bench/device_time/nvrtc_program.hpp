// Compiles device code with NVRTC and loads it, with nothing kept: the device-time programs compare
// kernels that the library does not know, such as baselines and untaken variants.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/device_time/cuda_handles.hpp"

namespace kiln::bench {

// Header bytes by the name they are included by.
using HeaderSet = std::map<std::string, std::string>;

// Adds every .cuh below `root` under its path relative to `root`.
void add_headers(const std::string& root, HeaderSet& headers);

class Program {
 public:
  // Compiles `source` for `target` ("sm_90a"); `names` are the instantiations to keep, as C++
  // expressions.
  Program(const std::string& source, const std::vector<std::string>& names,
          const HeaderSet& headers, const std::string& target);

  [[nodiscard]] const std::string& log() const { return log_; }

  // Loads the code into the current context. After this, kernel() may be called.
  void load();
  [[nodiscard]] CUfunction kernel(const std::string& name) const;

 private:
  std::map<std::string, std::string> lowered_;
  std::string cubin_;
  std::string log_;
  Library library_;
};

}  // namespace kiln::bench
