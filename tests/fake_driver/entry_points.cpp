// The driver's entry points, over the fake's state. cuda.h renames some by macro; the definitions
// below are renamed with it.

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <elf.h>
#include <unistd.h>

#include "runtime/driver/api.hpp"
#include "tests/fake_driver/state.hpp"
#include "tools/bench/graph_calls.hpp"

using kiln::fake::current_context;
using kiln::fake::Launch;
using kiln::fake::state;
using kiln::fake::State;
using kiln::fake::thread_capture_mode;

#define KILN_FAKE extern "C" __attribute__((visibility("default")))
#define KILN_FAKE_ENTER(name)                                                     \
  if (const CUresult injected = state().enter(#name); injected != CUDA_SUCCESS) { \
    return injected;                                                              \
  }

namespace {

// The length of an ELF file, from its own header: the driver is not told it.
std::size_t elf_bytes(const void* code) {
  Elf64_Ehdr header;
  std::memcpy(&header, code, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return 0;
  }
  const auto end = [](std::uint64_t offset, unsigned count, unsigned size) {
    return static_cast<std::size_t>(offset + std::uint64_t{count} * size);
  };
  return std::max({sizeof(header), end(header.e_shoff, header.e_shnum, header.e_shentsize),
                   end(header.e_phoff, header.e_phnum, header.e_phentsize)});
}

template <class T>
bool owns(const std::list<T>& items, const T* handle) {
  return std::any_of(items.begin(), items.end(), [&](const T& item) { return &item == handle; });
}

bool contains(const std::string& image, const std::string& part) {
  return image.find(part) != std::string::npos;
}

void record_launch(State& fake, const CUlaunchConfig& config, const CUfunc_st& function,
                   void** params) {
  Launch launch;
  launch.symbol = function.kernel->symbol;
  launch.image = function.kernel->library->image;
  launch.context = function.context;
  launch.stream = config.hStream;
  launch.grid[0] = config.gridDimX;
  launch.grid[1] = config.gridDimY;
  launch.grid[2] = config.gridDimZ;
  launch.block[0] = config.blockDimX;
  launch.block[1] = config.blockDimY;
  launch.block[2] = config.blockDimZ;
  launch.shared_bytes = config.sharedMemBytes;
  launch.attributes.assign(config.attrs, config.attrs + config.numAttrs);
  const auto signature = fake.signatures.find(launch.symbol);
  if (signature != fake.signatures.end()) {
    for (std::size_t i = 0; i < signature->second.size(); ++i) {
      launch.params.emplace_back(static_cast<const char*>(params[i]), signature->second[i]);
    }
  }
  if (fake.kernel) {
    fake.kernel(launch);
  }
  fake.launches_.push_back(std::move(launch));
}

struct EntryPoint {
  const char* name;
  int version;
  void* address;
};

const EntryPoint* find_entry_point(const char* name);

}  // namespace

KILN_FAKE CUresult cuInit(unsigned) {
  KILN_FAKE_ENTER(cuInit)
  pid_t none = 0;
  state().process.compare_exchange_strong(none, getpid());
  const std::lock_guard lock(state().mutex);
  return state().devices.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

KILN_FAKE CUresult cuDriverGetVersion(int* version) {
  const std::lock_guard lock(state().mutex);
  *version = state().version;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuGetErrorName(CUresult error, const char** text) {
  switch (error) {
#define KILN_FAKE_ERROR(name) \
  case name:                  \
    *text = #name;            \
    return CUDA_SUCCESS;
    KILN_FAKE_ERROR(CUDA_ERROR_INVALID_VALUE)
    KILN_FAKE_ERROR(CUDA_ERROR_NOT_INITIALIZED)
    KILN_FAKE_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    KILN_FAKE_ERROR(CUDA_ERROR_LAUNCH_FAILED)
    KILN_FAKE_ERROR(CUDA_ERROR_OUT_OF_MEMORY)
    KILN_FAKE_ERROR(CUDA_ERROR_NO_DEVICE)
    KILN_FAKE_ERROR(CUDA_ERROR_INVALID_IMAGE)
    KILN_FAKE_ERROR(CUDA_ERROR_INVALID_CONTEXT)
    KILN_FAKE_ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU)
    KILN_FAKE_ERROR(CUDA_ERROR_INVALID_HANDLE)
    KILN_FAKE_ERROR(CUDA_ERROR_NOT_FOUND)
    KILN_FAKE_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS)
#undef KILN_FAKE_ERROR
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

KILN_FAKE CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "injected by the fake driver";
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  KILN_FAKE_ENTER(cuDeviceGet)
  *device = ordinal + 100;  // Not the ordinal, so that mixing the two up is noticed.
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuDeviceGetCount(int* count) {
  KILN_FAKE_ENTER(cuDeviceGetCount)
  const std::lock_guard lock(state().mutex);
  *count = static_cast<int>(state().devices.size());
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  KILN_FAKE_ENTER(cuDeviceGetName)
  const std::lock_guard lock(state().mutex);
  std::strncpy(name, state().devices.at(static_cast<std::size_t>(device - 100)).name.c_str(),
               static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  KILN_FAKE_ENTER(cuDeviceGetAttribute)
  const std::lock_guard lock(state().mutex);
  const kiln::fake::Device& info = state().devices.at(static_cast<std::size_t>(device - 100));
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = info.major;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = info.minor;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = info.multiprocessors;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = info.max_shared_bytes_per_block;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

KILN_FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  KILN_FAKE_ENTER(cuDevicePrimaryCtxRetain)
  const std::lock_guard lock(state().mutex);
  CUcontext& primary = state().primary_contexts[device];
  if (primary == nullptr) {
    state().contexts.push_back({device - 100, state().contexts.size() + 1});
    primary = &state().contexts.back();
  }
  *context = primary;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuDevicePrimaryCtxRelease(CUdevice) {
  KILN_FAKE_ENTER(cuDevicePrimaryCtxRelease)
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuCtxGetCurrent(CUcontext* context) {
  KILN_FAKE_ENTER(cuCtxGetCurrent)
  *context = current_context();
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuCtxSetCurrent(CUcontext context) {
  KILN_FAKE_ENTER(cuCtxSetCurrent)
  current_context() = context;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuCtxGetDevice(CUdevice* device) {
  KILN_FAKE_ENTER(cuCtxGetDevice)
  if (current_context() == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *device = current_context()->device + 100;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  KILN_FAKE_ENTER(cuCtxGetId)
  *id = context->id;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**,
                                     unsigned, CUlibraryOption*, void**, unsigned) {
  KILN_FAKE_ENTER(cuLibraryLoadData)
  const std::lock_guard lock(state().mutex);
  state().load_modes.push_back(thread_capture_mode());
  if (const CUresult forbidden = state().forbidden_by_captures(); forbidden != CUDA_SUCCESS) {
    return forbidden;
  }
  const std::size_t bytes = elf_bytes(code);
  if (bytes == 0) {
    return CUDA_ERROR_INVALID_IMAGE;
  }
  std::string image(static_cast<const char*>(code), bytes);
  for (const std::string& part : state().refused_parts) {
    if (contains(image, part)) {
      return CUDA_ERROR_INVALID_IMAGE;
    }
  }
  state().libraries.push_back({std::move(image), true});
  *library = &state().libraries.back();
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuLibraryUnload(CUlibrary library) {
  KILN_FAKE_ENTER(cuLibraryUnload)
  const std::lock_guard lock(state().mutex);
  if (const CUresult forbidden = state().forbidden_by_captures(); forbidden != CUDA_SUCCESS) {
    return forbidden;
  }
  library->loaded = false;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  KILN_FAKE_ENTER(cuLibraryGetKernel)
  const std::lock_guard lock(state().mutex);
  if (!owns(state().libraries, library) || !library->loaded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (!contains(library->image, name)) {
    return CUDA_ERROR_NOT_FOUND;
  }
  state().kernels.push_back({library, name});
  *kernel = &state().kernels.back();
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  KILN_FAKE_ENTER(cuKernelGetFunction)
  const std::lock_guard lock(state().mutex);
  if (current_context() == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  CUfunc_st made;
  made.kernel = kernel;
  made.context = current_context();
  state().functions.push_back(made);
  *function = &state().functions.back();
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuFuncLoad(CUfunction function) {
  KILN_FAKE_ENTER(cuFuncLoad)
  const std::lock_guard lock(state().mutex);
  if (const CUresult forbidden = state().forbidden_by_captures(); forbidden != CUDA_SUCCESS) {
    return forbidden;
  }
  function->resident = true;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset,
                                      std::size_t* size) {
  KILN_FAKE_ENTER(cuFuncGetParamInfo)
  const std::lock_guard lock(state().mutex);
  const auto signature = state().signatures.find(function->kernel->symbol);
  if (signature == state().signatures.end()) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (index >= signature->second.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *offset = index * 8;
  *size = signature->second[index];
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                      CUfunction function) {
  KILN_FAKE_ENTER(cuFuncGetAttribute)
  const std::lock_guard lock(state().mutex);
  const auto known = state().static_shared.find(function->kernel->symbol);
  if (attribute != CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES || known == state().static_shared.end()) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *value = known->second;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                      int value) {
  KILN_FAKE_ENTER(cuFuncSetAttribute)
  const std::lock_guard lock(state().mutex);
  function->attributes[attribute] = value;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function,
                                                               int, std::size_t) {
  KILN_FAKE_ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor)
  const std::lock_guard lock(state().mutex);
  *blocks = state()
                .devices.at(static_cast<std::size_t>(function->context->device))
                .blocks_per_multiprocessor;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function,
                                    void** params, void**) {
  KILN_FAKE_ENTER(cuLaunchKernelEx)
  if (!state().recording.load(std::memory_order_relaxed)) {
    return CUDA_SUCCESS;
  }
  const std::lock_guard lock(state().mutex);
  if (!owns(state().functions, function) || !function->kernel->library->loaded) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (config->hStream != nullptr && config->hStream->context != function->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  record_launch(state(), *config, *function, params);
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                         CUdeviceptr address) {
  KILN_FAKE_ENTER(cuPointerGetAttribute)
  const std::lock_guard lock(state().mutex);
  const auto found =
      std::find_if(state().memory.begin(), state().memory.end(), [&](const State::Memory& range) {
        return address >= range.address && address - range.address < range.bytes;
      });
  if (found == state().memory.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const unsigned type = found->device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = type;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = std::max(found->device, 0);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

KILN_FAKE CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  KILN_FAKE_ENTER(cuStreamIsCapturing)
  const std::lock_guard lock(state().mutex);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream == nullptr) {
    const auto blocks = [](const CUstream_st& other) { return other.capturing && other.blocking; };
    const auto& streams = state().streams;
    return std::any_of(streams.begin(), streams.end(), blocks) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                                               : CUDA_SUCCESS;
  }
  if (stream->capturing) {
    *status =
        stream->spoiled ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  KILN_FAKE_ENTER(cuThreadExchangeStreamCaptureMode)
  std::swap(*mode, thread_capture_mode());
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuStreamCreate(CUstream* stream, unsigned) {
  KILN_FAKE_ENTER(cuStreamCreate)
  *stream = state().make_stream(current_context());
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuStreamSynchronize(CUstream stream) {
  KILN_FAKE_ENTER(cuStreamSynchronize)
  const std::lock_guard lock(state().mutex);
  if (stream != nullptr && stream->capturing) {
    stream->spoiled = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuStreamDestroy(CUstream) {
  KILN_FAKE_ENTER(cuStreamDestroy)
  return CUDA_SUCCESS;
}

// Device memory is host memory; no kernel ever runs.
KILN_FAKE CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  KILN_FAKE_ENTER(cuMemAlloc)
  *address = reinterpret_cast<CUdeviceptr>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  return *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

KILN_FAKE CUresult cuMemFree(CUdeviceptr address) {
  KILN_FAKE_ENTER(cuMemFree)
  std::free(reinterpret_cast<void*>(address));
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  KILN_FAKE_ENTER(cuMemcpyHtoD)
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  KILN_FAKE_ENTER(cuMemcpyDtoH)
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t bytes) {
  KILN_FAKE_ENTER(cuMemsetD8)
  std::memset(reinterpret_cast<void*>(to), value, bytes);
  return CUDA_SUCCESS;
}

// Graphs and events hold nothing: a captured launch is recorded like any other, a replay does
// nothing, and the time between events is what the test says.
KILN_FAKE CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode) {
  KILN_FAKE_ENTER(cuStreamBeginCapture)
  state().set_capturing(stream, true);
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  KILN_FAKE_ENTER(cuStreamEndCapture)
  state().set_capturing(stream, false);
  *graph = reinterpret_cast<CUgraph>(std::uintptr_t{0x1000});
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph,
                                               unsigned long long) {
  KILN_FAKE_ENTER(cuGraphInstantiateWithFlags)
  *executable = reinterpret_cast<CUgraphExec>(std::uintptr_t{0x2000});
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuGraphUpload(CUgraphExec, CUstream) {
  KILN_FAKE_ENTER(cuGraphUpload)
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuGraphLaunch(CUgraphExec, CUstream) {
  KILN_FAKE_ENTER(cuGraphLaunch)
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuGraphExecDestroy(CUgraphExec) {
  KILN_FAKE_ENTER(cuGraphExecDestroy)
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuGraphDestroy(CUgraph) {
  KILN_FAKE_ENTER(cuGraphDestroy)
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuEventCreate(CUevent* event, unsigned) {
  KILN_FAKE_ENTER(cuEventCreate)
  *event = reinterpret_cast<CUevent>(std::uintptr_t{0x3000});
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuEventRecord(CUevent, CUstream) {
  KILN_FAKE_ENTER(cuEventRecord)
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuEventSynchronize(CUevent) {
  KILN_FAKE_ENTER(cuEventSynchronize)
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  KILN_FAKE_ENTER(cuEventElapsedTime)
  const std::lock_guard lock(state().mutex);
  *milliseconds = state().event_milliseconds;
  return CUDA_SUCCESS;
}

KILN_FAKE CUresult cuEventDestroy(CUevent) {
  KILN_FAKE_ENTER(cuEventDestroy)
  return CUDA_SUCCESS;
}

namespace {

const EntryPoint* find_entry_point(const char* name) {
#define KILN_FAKE_ENTRY(function, since) {#function, since, reinterpret_cast<void*>(&::function)},
  static const EntryPoint kEntryPoints[] = {KILN_DRIVER_REQUIRED(
      KILN_FAKE_ENTRY) KILN_DRIVER_OPTIONAL(KILN_FAKE_ENTRY) KILN_GRAPH_CALLS(KILN_FAKE_ENTRY)};
#undef KILN_FAKE_ENTRY
  for (const EntryPoint& entry : kEntryPoints) {
    if (std::strcmp(entry.name, name) == 0) {
      return &entry;
    }
  }
  return nullptr;
}

}  // namespace

KILN_FAKE CUresult cuGetProcAddress(const char* symbol, void** address, int version, cuuint64_t,
                                    CUdriverProcAddressQueryResult* found) {
  const std::lock_guard lock(state().mutex);
  const EntryPoint* entry = find_entry_point(symbol);
  const bool known = entry != nullptr && entry->version <= state().version;
  const bool asked = known && entry->version <= version;
  *address = asked ? entry->address : nullptr;
  *found = asked   ? CU_GET_PROC_ADDRESS_SUCCESS
           : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                   : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return asked ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// NVRTC 13 opens a libcuda.so.1 that it finds along the loader's path, and takes for granted that
// it has this.
KILN_FAKE CUresult cuGetExportTable(const void** table, const CUuuid*) {
  *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

KILN_FAKE kiln::fake::Control* kiln_fake_driver_control();
kiln::fake::Control* kiln_fake_driver_control() {
  return &state();
}
