#pragma once

#include "base/result.hpp"

namespace kiln::runtime {

/// Why an image did not become a function of the driver.
struct LoadFailure {
  /// True: the driver does not take this image (wrong architecture, damaged, made by a toolchain it
  /// does not know), so another image may do. False: anything else, such as no memory.
  bool image_refused = false;
  Failure failure;
};

}  // namespace kiln::runtime
