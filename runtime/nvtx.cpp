#include "runtime/nvtx.hpp"

#ifdef KILN_NVTX

#include <array>

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

namespace kiln::runtime {
namespace {

// Null without a tool. Never destroyed: threads may still be at work while the process exits.
nvtxDomainHandle_t domain() noexcept {
  static nvtxDomainHandle_t const made = nvtxDomainCreateA("kiln");
  return made;
}

std::string_view verb(std::string_view category) {
  return category == "cache" ? "look up" : category;
}

}  // namespace

bool ToolRange::tool_listens() noexcept {
  return domain() != nullptr;
}

ToolRange::ToolRange(std::string_view category, std::string_view name) noexcept {
  if (!tool_listens()) {
    return;
  }
  std::array<char, 256> message{};
  fmt::format_to_n(message.data(), message.size() - 1, "{} {}", verb(category), name);
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = message.data();  // The tool copies it.
  nvtxDomainRangePushEx(domain(), &attributes);
}

ToolRange::~ToolRange() {
  if (tool_listens()) {
    nvtxDomainRangePop(domain());
  }
}

}  // namespace kiln::runtime

#else

namespace kiln::runtime {

bool ToolRange::tool_listens() noexcept {
  return false;
}
ToolRange::ToolRange(std::string_view, std::string_view) noexcept {}
ToolRange::~ToolRange() = default;

}  // namespace kiln::runtime

#endif
