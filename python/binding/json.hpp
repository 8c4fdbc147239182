#pragma once

/// \file
/// What Python wrote down as JSON, as C has it. All of it refers to the JSON.

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
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

/// A path need be no UTF-8: in the JSON it has a character for each of its bytes, U+0000 to U+00FF.
/// After this, the bytes.
inline void restore_path(Json& value) {
  auto& written = value.get_ref<std::string&>();
  std::string path;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const char c = written[i];
    const bool is_pair = (c & 0x80) != 0;
    path += is_pair ? static_cast<char>((c & 0x03) << 6 | (written[++i] & 0x3F)) : c;
  }
  written = std::move(path);
}

/// The other way round.
inline std::string path_in_json(const std::string& path) {
  std::string written;
  for (const char c : path) {
    if ((c & 0x80) == 0) {
      written += c;
    } else {
      written += static_cast<char>(0xC0 | (c >> 6 & 0x03));
      written += static_cast<char>(0x80 | (c & 0x3F));
    }
  }
  return written;
}

/// Text for Python, which takes UTF-8 alone. What is none, such as the name of a file, is replaced.
inline std::string readable(std::string text) {
  const bool is_ascii = std::all_of(text.begin(), text.end(), [](char c) { return c >= 0; });
  if (is_ascii) {
    return text;
  }
  return Json::parse(Json(std::move(text)).dump(-1, ' ', false, Json::error_handler_t::replace))
      .get<std::string>();
}

}  // namespace kiln::python
