#pragma once

/* The library's version (semantic versioning; docs/versions.md says what it promises), for C and
 * C++. CMake reads it from here. */

#define KILN_VERSION_MAJOR 0
#define KILN_VERSION_MINOR 1
#define KILN_VERSION_PATCH 0
#define KILN_VERSION "0.1.0"
