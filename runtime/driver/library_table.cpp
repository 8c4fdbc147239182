#include "runtime/driver/library_table.hpp"

#include <utility>

#include "runtime/driver/relaxed_capture.hpp"

namespace kiln::runtime {
namespace {

// Codes that blame the image. CUDA_ERROR_NOT_FOUND is a library without the symbol.
bool blames_image(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_NOT_FOUND:
      return true;
    default:
      return false;
  }
}

tl::unexpected<LoadFailure> load_failure(const Driver& driver, const char* call, CUresult result) {
  return tl::unexpected(LoadFailure{
      blames_image(result), Failure{ErrorCode::kDriverError, driver.error_text(call, result)}});
}

CUresult load_library(const Driver& driver, const cache::Image& image, CUlibrary& library) {
  return driver.api().cuLibraryLoadData(&library, image.data(), nullptr, nullptr, 0, nullptr,
                                        nullptr, 0);
}

tl::expected<CUfunction, LoadFailure> resolve_function(const Driver& driver, CUlibrary library,
                                                       const std::string& symbol) {
  const DriverApi& api = driver.api();
  CUkernel kernel = nullptr;
  CUresult result = api.cuLibraryGetKernel(&kernel, library, symbol.c_str());
  if (result != CUDA_SUCCESS) {
    return load_failure(driver, "cuLibraryGetKernel", result);
  }
  CUfunction function = nullptr;
  result = api.cuKernelGetFunction(&function, kernel);
  if (result != CUDA_SUCCESS) {
    return load_failure(driver, "cuKernelGetFunction", result);
  }
  if (api.cuFuncLoad != nullptr) {
    result = api.cuFuncLoad(function);
    if (result != CUDA_SUCCESS) {
      return load_failure(driver, "cuFuncLoad", result);
    }
  }
  return function;
}

}  // namespace

LibraryTable& LibraryTable::of_process() {
  static LibraryTable* const table = new LibraryTable();  // Never destroyed; see the class comment.
  return *table;
}

LibraryTable::Held LibraryTable::hold(const Driver& driver, const cache::Image& image) {
  const LibraryKey key{driver.identity(), image.digest(), image.size()};
  for (;;) {
    std::shared_ptr<Library> library;
    {
      const std::lock_guard lock(mutex_);
      std::shared_ptr<Library>& known = libraries_[key];
      if (known == nullptr) {
        known = std::make_shared<Library>();
      }
      library = known;
    }
    std::unique_lock lock(library->mutex);
    if (!library->unloaded) {
      return {std::move(library), std::move(lock)};
    }
  }
}

void LibraryTable::load_ahead(const Driver& driver, const cache::Image& image) {
  const Held held = hold(driver, image);
  if (held.library->handle != nullptr) {
    return;
  }
  const RelaxedCapture relaxed(driver.api());
  if (load_library(driver, image, held.library->handle) != CUDA_SUCCESS) {
    held.library->handle = nullptr;
  }
}

tl::expected<LibraryTable::Loaded, LoadFailure> LibraryTable::load(const Driver& driver,
                                                                   const Context& context,
                                                                   const cache::Image& image,
                                                                   const std::string& symbol,
                                                                   const void* user) {
  const Held held = hold(driver, image);
  Library& library = *held.library;
  std::pair<unsigned long long, std::string> key(context.id, symbol);
  const auto known = library.functions.find(key);
  if (known != library.functions.end()) {
    library.users.insert(user);
    return Loaded{known->second.get(), false};
  }
  if (library.handle == nullptr) {
    const CUresult result = load_library(driver, image, library.handle);
    if (result != CUDA_SUCCESS) {
      library.handle = nullptr;
      return load_failure(driver, "cuLibraryLoadData", result);
    }
  }
  auto function = resolve_function(driver, library.handle, symbol);
  if (!function) {
    if (library.functions.empty()) {  // Nothing of it was ever handed out.
      driver.api().cuLibraryUnload(std::exchange(library.handle, nullptr));
    }
    return tl::unexpected(std::move(function.error()));
  }
  library.users.insert(user);
  auto& slot = library.functions[std::move(key)];
  slot = std::make_unique<LoadedFunction>(LoadedFunction{*function, 0});
  return Loaded{slot.get(), !std::exchange(library.told_of, true)};
}

void LibraryTable::leave(const void* user) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, library] : libraries_) {
    const std::lock_guard library_lock(library->mutex);
    library->users.erase(user);
  }
}

Result<std::size_t> LibraryTable::unload(const Driver& driver, const void* user) {
  const std::lock_guard lock(mutex_);
  std::size_t unloaded = 0;
  CUresult failed = CUDA_SUCCESS;
  for (auto at = libraries_.begin(); at != libraries_.end();) {
    const std::shared_ptr<Library> library = at->second;
    const std::lock_guard library_lock(library->mutex);
    const bool alone = library->users.erase(user) > 0 && library->users.empty();
    const CUresult result = alone ? driver.api().cuLibraryUnload(library->handle) : CUDA_SUCCESS;
    if (alone && result == CUDA_SUCCESS) {
      library->unloaded = true;
      at = libraries_.erase(at);
      ++unloaded;
      continue;
    }
    failed = result != CUDA_SUCCESS ? result : failed;
    ++at;
  }
  if (failed != CUDA_SUCCESS) {
    return tl::unexpected(driver.check("cuLibraryUnload", failed).error());
  }
  return unloaded;
}

Status LibraryTable::allow_shared(const Driver& driver, LoadedFunction& function,
                                  int dynamic_bytes) {
  const std::lock_guard lock(mutex_);
  if (dynamic_bytes <= function.shared_limit) {
    return {};
  }
  Status status = driver.check(
      "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)",
      driver.api().cuFuncSetAttribute(
          function.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, dynamic_bytes));
  if (status) {
    function.shared_limit = dynamic_bytes;
  }
  return status;
}

}  // namespace kiln::runtime
