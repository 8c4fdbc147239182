#pragma once

/// \file
/// The fake machine of the C interface's tests, for files that may not see its types: its own
/// kiln::Engine and the door's are two classes of one name.

#include <memory>
#include <string>

#include "tests/fake_driver/fake_driver.hpp"

namespace kiln::test {

class Wall {
 public:
  virtual ~Wall() = default;
  virtual fake::Control& fake() = 0;
  virtual CUcontext enter() = 0;
  virtual std::string path(const std::string& name) const = 0;
  virtual std::string cache_root() const = 0;
  virtual void plant_for(const char* target) = 0;
};

/// With c_scale's kernels for sm_90 in its cache: see tests/c_api/machine.hpp. A context is
/// current.
std::unique_ptr<Wall> make_wall();

}  // namespace kiln::test
