#pragma once

/// \file
/// What Python wrote down as JSON, as C has it. All of it refers to the JSON.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace kiln::python {

using Json = nlohmann::json;

/// Of a list.
inline std::vector<const char*> texts(const Json& list) {
  std::vector<const char*> out;
  for (const Json& text : list) {
    out.push_back(text.get_ref<const std::string&>().c_str());
  }
  return out;
}

/// Null where there is none.
inline const char* text(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr
                                                   : found->get_ref<const std::string&>().c_str();
}

}  // namespace kiln::python
