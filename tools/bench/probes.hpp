#pragma once

/// \file
/// Two kernels of one small block that timing needs. Both take a tensor that only says which device
/// they run on.

#include <kiln/op.hpp>

namespace kiln::tools::bench {

/// bench_empty(where): waits and lets its dependents go under PDL, and does nothing.
Op empty_op();

/// bench_delay(where, nanoseconds): keeps the device busy for that long.
Op delay_op();

}  // namespace kiln::tools::bench
