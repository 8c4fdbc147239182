#pragma once

/// \file
/// The library's version, as macros.

#include <kiln/version.h>
