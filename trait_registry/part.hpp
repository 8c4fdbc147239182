#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace kiln::registry {

/// What of an op a message is about. Spelt only when there is a message: each engine checks every
/// op, and there is mostly nothing to say.
struct Part {
  std::string_view kind;  ///< "kernel"
  std::string_view name;
  std::optional<std::size_t> parameter{};

  operator std::string() const {
    return fmt::format("{} \"{}\"{}", kind, name,
                       parameter ? fmt::format(", parameter {}", *parameter) : "");
  }
};

}  // namespace kiln::registry
