#include "trait_registry/sources.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace kiln::registry {

const EmbeddedSource* find_embedded(std::string_view name) noexcept {
  const std::span<const EmbeddedSource> all = embedded_sources();
  const auto found = std::lower_bound(
      all.begin(), all.end(), name,
      [](const EmbeddedSource& source, std::string_view wanted) { return source.name < wanted; });
  return found == all.end() || found->name != name ? nullptr : &*found;
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

namespace {

/// What a source includes, transitively.
class Closure {
 public:
  explicit Closure(std::span<const SourceFile> sources) : sources_(sources) {}

  Status add_all_of(const SourceFile& main) {
    to_scan_.emplace_back(main.name, main.text);
    while (!to_scan_.empty()) {
      const auto [file, text] = to_scan_.back();
      to_scan_.pop_back();
      if (Status added = add_includes_of(file, text); !added) {
        return added;
      }
    }
    return {};
  }

  std::vector<SourceFile> files() const {
    std::vector<SourceFile> files;
    files.reserve(found_.size());
    for (const auto& [name, text] : found_) {
      files.push_back({std::string(name), std::string(text)});
    }
    return files;
  }

 private:
  Status add_includes_of(std::string_view file, std::string_view text) {
    // What Kiln's own files include was found out when they were embedded, and no source of an op
    // may take their names.
    if (const EmbeddedSource* const embedded = find_embedded(file)) {
      for (std::string_view rest = embedded->includes; !rest.empty();) {
        const std::size_t end = rest.find(' ');
        const EmbeddedSource& included = *find_embedded(rest.substr(0, end));
        add(included.name, included.text);
        rest.remove_prefix(end + 1);
      }
      return {};
    }
    for (const IncludeDirective& include : scan_includes(text)) {
      if (Status added = add(file, include); !added) {
        return added;
      }
    }
    return {};
  }

  Status add(std::string_view file, const IncludeDirective& include) {
    std::string_view included;
    const bool computed = include.form == IncludeDirective::Form::kComputed;
    if (!computed && find_text(include.name, sources_, included)) {
      add(include.name, included);
      return {};
    }
    const bool may_be_absent = include.form == IncludeDirective::Form::kAngled || include.probe;
    return may_be_absent && !computed ? Status() : tl::unexpected(unresolved(file, include));
  }

  void add(std::string_view name, std::string_view text) {
    if (found_.emplace(name, text).second) {
      to_scan_.emplace_back(name, text);
    }
  }

  std::span<const SourceFile> sources_;
  std::map<std::string_view, std::string_view> found_;
  std::vector<std::pair<std::string_view, std::string_view>> to_scan_;
};

}  // namespace

Result<std::vector<SourceFile>> include_closure(const SourceFile& main,
                                                std::span<const SourceFile> sources) {
  Closure closure(sources);
  if (Status found = closure.add_all_of(main); !found) {
    return tl::unexpected(std::move(found.error()));
  }
  return closure.files();
}

}  // namespace kiln::registry
