#pragma once

// Debian 12 has Catch2 v2, Ubuntu 24.04 has v3; both build.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
