#include "tests/fake_nvtx/fake_nvtx.hpp"

#include <cstddef>
#include <mutex>
#include <utility>

#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#define KILN_EXPORT extern "C" __attribute__((visibility("default")))

namespace kiln::fake {
namespace {

struct Notes {
  std::mutex mutex;
  std::vector<std::string> events;
};

Notes& notes() {
  static auto* const made = new Notes;  // Threads may be at work until the process ends.
  return *made;
}

void note(std::string event) {
  const std::lock_guard lock(notes().mutex);
  notes().events.push_back(std::move(event));
}

// A domain's handle is the address of its name.
const std::string& name_of(nvtxDomainHandle_t domain) {
  return *reinterpret_cast<const std::string*>(domain);
}

nvtxDomainHandle_t create_domain(const char* name) {
  note(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(new std::string(name));
}

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  note(std::to_string(gettid()) + " push " + name_of(domain) + ": " + attributes->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  note(std::to_string(gettid()) + " pop " + name_of(domain));
  return 0;
}

template <class Function>
void listen(NvtxFunctionTable table, std::size_t entry, Function* function) {
  *table[entry] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

// NVTX calls it by this name once it has loaded the library; anything but 0 is success.
KILN_EXPORT int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
  const auto* const callbacks =
      static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  listen(table, NVTX_CBID_CORE2_DomainCreateA, &create_domain);
  listen(table, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  listen(table, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}

KILN_EXPORT void kiln_fake_nvtx_events(std::vector<std::string>& into) {
  const std::lock_guard lock(notes().mutex);
  into = notes().events;
}

}  // namespace kiln::fake
