#pragma once

#include <cuda.h>

/// The driver calls that timing needs and launching does not: capture, graphs, events. By name and
/// the CUDA version whose signature is asked for, as in runtime/driver/api.hpp.
#define KILN_GRAPH_CALLS(X)             \
  X(cuStreamBeginCapture, 10010)        \
  X(cuStreamEndCapture, 10000)          \
  X(cuGraphInstantiateWithFlags, 11040) \
  X(cuGraphUpload, 11010)               \
  X(cuGraphLaunch, 10000)               \
  X(cuGraphExecDestroy, 10000)          \
  X(cuGraphDestroy, 10000)              \
  X(cuEventCreate, 2000)                \
  X(cuEventRecord, 2000)                \
  X(cuEventSynchronize, 2000)           \
  X(cuEventElapsedTime, 2000)           \
  X(cuEventDestroy, 4000)
