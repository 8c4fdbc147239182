#include "trait_registry/sources.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace kiln::registry {

const EmbeddedSource* find_embedded(std::string_view name) noexcept {
  const std::span<const EmbeddedSource> all = embedded_sources();
  const auto found = std::find_if(
      all.begin(), all.end(), [&](const EmbeddedSource& source) { return source.name == name; });
  return found == all.end() ? nullptr : &*found;
}

namespace {

bool find_text(std::string_view name, std::span<const SourceFile> sources, std::string_view& text) {
  for (const SourceFile& source : sources) {
    if (source.name == name) {
      text = source.text;
      return true;
    }
  }
  const EmbeddedSource* embedded = find_embedded(name);
  if (embedded != nullptr) {
    text = embedded->text;
  }
  return embedded != nullptr;
}

Failure unresolved(std::string_view file, const IncludeDirective& include) {
  if (include.form == IncludeDirective::Form::kComputed) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("\"{}\" line {}: the file of {} must be written out, since it cannot be "
                        "known here what a macro stands for",
                        file, include.line, include.probe ? "a __has_include" : "an #include")};
  }
  return {ErrorCode::kInvalidArgument,
          fmt::format("\"{}\" line {} includes \"{}\", which is neither among the op's sources nor "
                      "one of Kiln's own files",
                      file, include.line, include.name)};
}

}  // namespace

Result<SourceFile> find_source(std::string_view name, std::span<const SourceFile> sources) {
  std::string_view text;
  if (!find_text(name, sources, text)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("source \"{}\" is neither among the op's sources nor one of Kiln's own "
                            "files",
                            name));
  }
  return SourceFile{std::string(name), std::string(text)};
}

Result<std::vector<SourceFile>> include_closure(const SourceFile& main,
                                                std::span<const SourceFile> sources) {
  std::map<std::string, std::string_view, std::less<>> found;
  std::vector<std::pair<std::string_view, std::string_view>> to_scan{{main.name, main.text}};
  while (!to_scan.empty()) {
    const auto [file, text] = to_scan.back();
    to_scan.pop_back();
    for (const IncludeDirective& include : scan_includes(text)) {
      std::string_view included;
      const bool computed = include.form == IncludeDirective::Form::kComputed;
      const bool resolved = !computed && find_text(include.name, sources, included);
      const bool may_be_absent = include.form == IncludeDirective::Form::kAngled || include.probe;
      if (!resolved && may_be_absent && !computed) {
        continue;
      }
      if (!resolved) {
        return tl::unexpected(unresolved(file, include));
      }
      const auto [entry, is_new] = found.emplace(include.name, included);
      if (is_new) {
        to_scan.emplace_back(entry->first, included);
      }
    }
  }
  std::vector<SourceFile> headers;
  headers.reserve(found.size());
  for (const auto& [name, text] : found) {
    headers.push_back({name, std::string(text)});
  }
  return headers;
}

}  // namespace kiln::registry
