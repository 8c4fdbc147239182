#include "runtime/driver/library_table.hpp"

#include <utility>

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

tl::expected<LibraryTable::Loaded, LoadFailure> LibraryTable::load(const Driver& driver,
                                                                   const Context& context,
                                                                   const cache::Image& image,
                                                                   const std::string& symbol,
                                                                   const void* user) {
  const LibraryKey key{driver.identity(), image.digest(), image.size()};
  const std::lock_guard lock(mutex_);
  const auto known = libraries_.find(key);
  CUlibrary handle = nullptr;
  if (known != libraries_.end()) {
    const auto function = known->second.functions.find({context.id, symbol});
    if (function != known->second.functions.end()) {
      known->second.users.insert(user);
      return Loaded{function->second.get(), false};
    }
    handle = known->second.handle;
  } else {
    const CUresult result = driver.api().cuLibraryLoadData(&handle, image.data(), nullptr, nullptr,
                                                           0, nullptr, nullptr, 0);
    if (result != CUDA_SUCCESS) {
      return load_failure(driver, "cuLibraryLoadData", result);
    }
  }
  const bool fresh = known == libraries_.end();
  auto function = resolve_function(driver, handle, symbol);
  if (!function) {
    if (fresh) {
      driver.api().cuLibraryUnload(handle);  // Nothing of it was ever handed out.
    }
    return tl::unexpected(std::move(function.error()));
  }
  Library& library = libraries_[key];
  library.handle = handle;
  library.users.insert(user);
  auto& slot = library.functions[{context.id, symbol}];
  slot = std::make_unique<LoadedFunction>(LoadedFunction{*function, 0});
  return Loaded{slot.get(), fresh};
}

void LibraryTable::leave(const void* user) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, library] : libraries_) {
    library.users.erase(user);
  }
}

Result<std::size_t> LibraryTable::unload(const Driver& driver, const void* user) {
  const std::lock_guard lock(mutex_);
  std::size_t unloaded = 0;
  CUresult failed = CUDA_SUCCESS;
  for (auto at = libraries_.begin(); at != libraries_.end();) {
    const bool alone = at->second.users.erase(user) > 0 && at->second.users.empty();
    const CUresult result = alone ? driver.api().cuLibraryUnload(at->second.handle) : CUDA_SUCCESS;
    if (alone && result == CUDA_SUCCESS) {
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
