#include "runtime/driver/driver.hpp"

#include <array>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <unistd.h>

namespace kiln::runtime {
namespace {

std::string version_name(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string loaded_path(void* handle, const std::string& asked) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name[0] != '\0') {
    return map->l_name;
  }
  return asked;
}

// The version that a library too old for cuGetProcAddress_v2 reports, for the message alone.
std::string reported_version(void* handle) {
  const auto get =
      reinterpret_cast<decltype(&::cuDriverGetVersion)>(dlsym(handle, "cuDriverGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == CUDA_SUCCESS ? version_name(version) : "unknown";
}

tl::unexpected<Failure> unavailable(std::string message) {
  return fail(ErrorCode::kDriverUnavailable, std::move(message));
}

// Codes that a kernel's failure on the device leaves behind for the rest of the process.
bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::load(const std::string& path) {
  const std::string asked = path.empty() ? "libcuda.so.1" : path;
  void* handle = dlopen(asked.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    return unavailable(
        fmt::format("no CUDA driver: searched for {} ({}), which failed: {}. Install the NVIDIA "
                    "driver; if it is installed, add the folder of its libcuda.so.1 to "
                    "LD_LIBRARY_PATH or name the file in EngineOptions::driver",
                    asked, path.empty() ? "along the loader's path" : "EngineOptions::driver",
                    why != nullptr ? why : "no reason given"));
  }
  // Not make_shared: the constructor is private.
  const std::shared_ptr<Driver> driver(new Driver());
  driver->handle_ = handle;
  driver->path_ = loaded_path(handle, asked);
  driver->process_ = getpid();
  if (Status status = driver->resolve(); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  if (Status status = driver->read_devices(); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  return driver;
}

Status Driver::resolve() {
  const auto get_address =
      reinterpret_cast<decltype(&::cuGetProcAddress)>(dlsym(handle_, "cuGetProcAddress_v2"));
  if (get_address == nullptr) {
    return unavailable(fmt::format("the CUDA driver {} is of version {}; Kiln needs {} or newer",
                                   path_, reported_version(handle_), version_name(kOldestVersion)));
  }
  const auto resolve_one = [&](const char* name, int version, auto& function) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    // Legacy: a null stream is the legacy default stream, as StreamHandle promises, whatever flag a
    // program was compiled with.
    const CUresult result =
        get_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found);
    if (result == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
    }
    return function != nullptr;
  };
  std::string missing;
#define KILN_RESOLVE(name, version)                  \
  if (!resolve_one(#name, version, api_.name)) {     \
    missing += missing.empty() ? #name : ", " #name; \
  }
  KILN_DRIVER_REQUIRED(KILN_RESOLVE)
#undef KILN_RESOLVE
  if (api_.cuDriverGetVersion != nullptr) {
    api_.cuDriverGetVersion(&version_);
  }
  if (version_ < kOldestVersion) {
    return unavailable(fmt::format("the CUDA driver {} is of version {}; Kiln needs {} or newer",
                                   path_, version_text(), version_name(kOldestVersion)));
  }
  if (!missing.empty()) {
    return unavailable(fmt::format("{} is no usable CUDA driver: it lacks {}", path_, missing));
  }
#define KILN_RESOLVE(name, version) resolve_one(#name, version, api_.name);
  KILN_DRIVER_OPTIONAL(KILN_RESOLVE)
#undef KILN_RESOLVE
  return {};
}

Status Driver::read_devices() {
  if (const CUresult result = api_.cuInit(0); result != CUDA_SUCCESS) {
    return unavailable(
        fmt::format("the CUDA driver {} (version {}) has no usable device: {}{}", path_,
                    version_text(), error_text("cuInit", result),
                    result == CUDA_ERROR_NOT_INITIALIZED
                        ? "; a process that was forked from one that used CUDA cannot use it: fork "
                          "before the first use, or exec after"
                        : ""));
  }
  int count = 0;
  if (Status status = check("cuDeviceGetCount", api_.cuDeviceGetCount(&count)); !status) {
    return status;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceInfo info;
    info.ordinal = ordinal;
    std::array<char, 256> name{};
    CUresult result = api_.cuDeviceGet(&info.handle, ordinal);
    const auto read = [&](CUdevice_attribute attribute, int& value) {
      if (result == CUDA_SUCCESS) {
        result = api_.cuDeviceGetAttribute(&value, attribute, info.handle);
      }
    };
    read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, info.capability.major);
    read(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, info.capability.minor);
    read(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, info.multiprocessors);
    read(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, info.max_shared_bytes_per_block);
    if (result == CUDA_SUCCESS) {
      result = api_.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, info.handle);
    }
    if (Status status = check("reading a device's attributes", result); !status) {
      return status;
    }
    info.name = name.data();
    devices_.push_back(std::move(info));
  }
  return {};
}

std::string Driver::version_text() const {
  return version_name(version_);
}

Result<const DeviceInfo*> Driver::device(int ordinal) const {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= devices_.size()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("there is no CUDA device {}: the driver shows {} device{}", ordinal,
                            devices_.size(), devices_.size() == 1 ? "" : "s"));
  }
  return &devices_[static_cast<std::size_t>(ordinal)];
}

std::string Driver::error_text(const char* call, CUresult result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  api_.cuGetErrorName(result, &name);
  api_.cuGetErrorString(result, &text);
  return fmt::format("{} failed: {} ({}){}", call,
                     name != nullptr ? name : fmt::format("CUresult {}", static_cast<int>(result)),
                     text != nullptr ? text : "no description",
                     is_sticky(result)
                         ? "; a kernel has failed on the device, and every CUDA call of this "
                           "process fails from now on: end it, and run it with KILN_CHECK=1 to "
                           "have the kernel named"
                         : "");
}

Status Driver::check_process() const {
  const pid_t process = getpid();
  if (process == process_) {
    return {};
  }
  return unavailable(
      fmt::format("this process ({}) was forked from one ({}) that had used the CUDA driver, and "
                  "CUDA does not work after that: fork before the first use, or exec after",
                  process, process_));
}

Status Driver::check(const char* call, CUresult result) const {
  if (result == CUDA_SUCCESS) {
    return {};
  }
  return fail(ErrorCode::kDriverError, error_text(call, result));
}

}  // namespace kiln::runtime
