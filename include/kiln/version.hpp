#pragma once

/// \file
/// The library's version (semantic versioning). CMake reads it from here.

#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1
#define KILN_VERSION_PATCH 0
#define KILN_VERSION "0.1.0"
