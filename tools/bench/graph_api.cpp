#include "tools/bench/graph_api.hpp"

#include <string>
#include <type_traits>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>

#include <kiln/error.hpp>

#include "base/result.hpp"

namespace kiln::tools::bench {

GraphApi::GraphApi(std::shared_ptr<const runtime::Driver> driver) : driver_(std::move(driver)) {
  // Loaded already, for good: this is the same library.
  void* const library = dlopen(driver_->path().c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto get_address =
      library == nullptr
          ? nullptr
          : reinterpret_cast<decltype(&::cuGetProcAddress)>(dlsym(library, "cuGetProcAddress_v2"));
  std::string missing;
  const auto resolve = [&](const char* name, int version, auto& function) {
    void* address = nullptr;
    CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (get_address == nullptr ||
        get_address(name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) !=
            CUDA_SUCCESS ||
        found != CU_GET_PROC_ADDRESS_SUCCESS) {
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
      return;
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define KILN_GRAPH_RESOLVE(name, version) resolve(#name, version, name);
  KILN_GRAPH_CALLS(KILN_GRAPH_RESOLVE)
#undef KILN_GRAPH_RESOLVE
  if (!missing.empty()) {
    throw Error(ErrorCode::kDriverUnavailable,
                fmt::format("the CUDA driver {} (version {}) cannot time: it lacks {}",
                            driver_->path(), driver_->version_text(), missing));
  }
}

void GraphApi::check(const char* call, CUresult result) const {
  value_or_throw(driver_->check(call, result));
}

void Graph::finish(CUstream stream) {
  try {
    api_->check("cuStreamEndCapture", api_->cuStreamEndCapture(stream, &graph_));
    api_->check("cuGraphInstantiate", api_->cuGraphInstantiateWithFlags(&executable_, graph_, 0));
    api_->check("cuGraphUpload", api_->cuGraphUpload(executable_, stream));
  } catch (...) {
    destroy();
    throw;
  }
}

void Graph::destroy() noexcept {
  if (executable_ != nullptr) {
    api_->cuGraphExecDestroy(executable_);
  }
  if (graph_ != nullptr) {
    api_->cuGraphDestroy(graph_);
  }
}

Event::Event(Event&& other) noexcept
    : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}

Event::~Event() {
  if (event_ != nullptr) {
    api_->cuEventDestroy(event_);
  }
}

double Event::microseconds_since(const Event& start) const {
  float milliseconds = 0;
  api_->check("cuEventElapsedTime", api_->cuEventElapsedTime(&milliseconds, start.event_, event_));
  return static_cast<double>(milliseconds) * 1000;
}

}  // namespace kiln::tools::bench
