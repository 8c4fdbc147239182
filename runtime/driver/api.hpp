#pragma once

#include <cuda.h>

/// The driver's entry points that Kiln calls, by name and the CUDA version whose signature is asked
/// for. cuda.h renames some of them by macro (cuMemAlloc is cuMemAlloc_v2); a member is renamed
/// with it, so callers write the plain name.
#define KILN_DRIVER_REQUIRED(X)                        \
  X(cuInit, 2000)                                      \
  X(cuDriverGetVersion, 2020)                          \
  X(cuGetErrorName, 6000)                              \
  X(cuGetErrorString, 6000)                            \
  X(cuDeviceGet, 2000)                                 \
  X(cuDeviceGetCount, 2000)                            \
  X(cuDeviceGetName, 2000)                             \
  X(cuDeviceGetAttribute, 2000)                        \
  X(cuDevicePrimaryCtxRetain, 7000)                    \
  X(cuDevicePrimaryCtxRelease, 11000)                  \
  X(cuCtxGetCurrent, 4000)                             \
  X(cuCtxSetCurrent, 4000)                             \
  X(cuCtxGetDevice, 2000)                              \
  X(cuCtxGetId, 12000)                                 \
  X(cuLibraryLoadData, 12000)                          \
  X(cuLibraryUnload, 12000)                            \
  X(cuLibraryGetKernel, 12000)                         \
  X(cuKernelGetFunction, 12000)                        \
  X(cuFuncGetAttribute, 2020)                          \
  X(cuFuncSetAttribute, 9000)                          \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050) \
  X(cuLaunchKernelEx, 11060)                           \
  X(cuPointerGetAttribute, 4000)                       \
  X(cuStreamIsCapturing, 10000)                        \
  X(cuThreadExchangeStreamCaptureMode, 10010)          \
  X(cuStreamCreate, 2000)                              \
  X(cuStreamSynchronize, 2000)                         \
  X(cuStreamDestroy, 4000)                             \
  X(cuMemAlloc, 3020)                                  \
  X(cuMemFree, 3020)                                   \
  X(cuMemcpyHtoD, 3020)                                \
  X(cuMemcpyDtoH, 3020)                                \
  X(cuMemsetD8, 3020)

/// Absent (null) from the oldest drivers that Kiln works with.
#define KILN_DRIVER_OPTIONAL(X) \
  X(cuFuncLoad, 12040)          \
  X(cuFuncGetParamInfo, 12040)

namespace kiln::runtime {

struct DriverApi {
#define KILN_DRIVER_MEMBER(name, version) decltype(&::name) name = nullptr;
  KILN_DRIVER_REQUIRED(KILN_DRIVER_MEMBER)
  KILN_DRIVER_OPTIONAL(KILN_DRIVER_MEMBER)
#undef KILN_DRIVER_MEMBER
};

}  // namespace kiln::runtime
