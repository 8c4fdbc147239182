#pragma once

/* The driver calls that these examples make for themselves. libcuda is opened at run time, so they
 * link and start everywhere, and say so where there is no GPU. An engine has its own of all this.
 */

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* An entry point of libcuda; ends the program where there is none. */
static inline void* device_symbol(const char* name) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  void* const symbol = library != NULL ? dlsym(library, name) : NULL;
  if (symbol == NULL) {
    fprintf(stderr, "This example needs an NVIDIA driver, and %s was not found: %s\n", name,
            dlerror());
    exit(77);
  }
  return symbol;
}

static inline void device_check(int result, const char* call) {
  if (result != 0) {
    fprintf(stderr, "%s failed with CUresult %d%s\n", call, result,
            result == 100 ? ": there is no CUDA device" : "");
    exit(result == 100 ? 77 : 1);
  }
}

/* Calls `name` with arguments of the types in parentheses: DEVICE_CALL("cuInit", (unsigned), 0). */
#define DEVICE_CALL(name, types, ...) \
  device_check(((int(*) types)device_symbol(name))(__VA_ARGS__), name)

/* Makes the primary context of device 0 current on this thread. */
static inline void device_open(void) {
  void* context = NULL;
  int device = 0;
  DEVICE_CALL("cuInit", (unsigned), 0);
  DEVICE_CALL("cuDeviceGet", (int*, int), &device, 0);
  DEVICE_CALL("cuDevicePrimaryCtxRetain", (void**, int), &context, device);
  DEVICE_CALL("cuCtxSetCurrent", (void*), context);
}

static inline void* device_alloc(size_t bytes) {
  uint64_t address = 0;
  DEVICE_CALL("cuMemAlloc_v2", (uint64_t*, size_t), &address, bytes);
  return (void*)(uintptr_t)address;
}

static inline void device_free(void* memory) {
  DEVICE_CALL("cuMemFree_v2", (uint64_t), (uint64_t)(uintptr_t)memory);
}

static inline void device_upload(void* to, const void* from, size_t bytes) {
  DEVICE_CALL("cuMemcpyHtoD_v2", (uint64_t, const void*, size_t), (uint64_t)(uintptr_t)to, from,
              bytes);
}

/* Waits for the legacy default stream first. */
static inline void device_download(void* to, const void* from, size_t bytes) {
  DEVICE_CALL("cuStreamSynchronize", (void*), NULL);
  DEVICE_CALL("cuMemcpyDtoH_v2", (void*, uint64_t, size_t), to, (uint64_t)(uintptr_t)from, bytes);
}
