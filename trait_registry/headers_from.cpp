#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <kiln/error.hpp>
#include <kiln/op.hpp>

#include "trait_registry/sources.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using registry::IncludeDirective;

// Reads an entry file and what it includes, each file once, in order of discovery.
class SourceReader {
 public:
  explicit SourceReader(const std::string& directory) : directory_(directory) {
    std::error_code error;
    root_ = fs::canonical(directory, error);
    if (error) {
      throw Error(ErrorCode::kIo, fmt::format("headers_from: cannot read directory \"{}\": {}",
                                              directory, error.message()));
    }
  }

  std::vector<SourceFile> run(const std::string& entry) {
    const std::optional<fs::path> path = file_at(root_ / entry);
    if (!path) {
      throw Error(ErrorCode::kIo,
                  fmt::format("headers_from: no file \"{}\" in \"{}\"", entry, directory_));
    }
    name_of(*path);
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      const fs::path current = paths_[i];  // A copy, since name_of appends what is discovered.
      std::string text = rewritten(current, read(current));
      files_.push_back({names_[i], std::move(text)});
    }
    return std::move(files_);
  }

 private:
  static std::optional<fs::path> file_at(const fs::path& path) {
    std::error_code error;
    fs::path canonical = fs::canonical(path, error);
    if (error || !fs::is_regular_file(canonical, error)) {
      return std::nullopt;
    }
    return canonical;
  }

  static std::string read(const fs::path& path) {
    std::ifstream stream(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    if (!stream.is_open() || stream.bad()) {
      throw Error(ErrorCode::kIo, fmt::format("headers_from: cannot read \"{}\"", path.string()));
    }
    return text;
  }

  // The text with each resolved quoted include replaced by the registered name of its file.
  std::string rewritten(const fs::path& path, const std::string& text) {
    std::string result;
    std::size_t copied = 0;
    for (const IncludeDirective& include : registry::scan_includes(text)) {
      if (include.form == IncludeDirective::Form::kAngled) {
        continue;
      }
      const std::optional<std::string> name = resolve(path, include);
      if (name) {
        result.append(text, copied, include.offset - copied);
        result += *name;
        copied = include.offset + include.name.size();
      }
    }
    result.append(text, copied, std::string::npos);
    return result;
  }

  // As a compiler given the directory as its one include path would: beside the including file
  // first. Nothing when the name is left as it is: one of Kiln's own files, or probed for in vain.
  std::optional<std::string> resolve(const fs::path& includer, const IncludeDirective& include) {
    if (include.form == IncludeDirective::Form::kComputed) {
      throw Error(ErrorCode::kIo,
                  fmt::format("headers_from: \"{}\" line {}: the file of {} must be written out, "
                              "not named by a macro",
                              includer.string(), include.line,
                              include.probe ? "a __has_include" : "an #include"));
    }
    for (const fs::path& folder : {includer.parent_path(), root_}) {
      if (const std::optional<fs::path> path = file_at(folder / include.name)) {
        return name_of(*path);
      }
    }
    if (include.probe || registry::find_embedded(include.name) != nullptr) {
      return std::nullopt;
    }
    throw Error(ErrorCode::kIo,
                fmt::format("headers_from: \"{}\" line {} includes \"{}\", which is neither beside "
                            "it, nor in \"{}\", nor one of Kiln's own files",
                            includer.string(), include.line, include.name, directory_));
  }

  std::string name_of(const fs::path& path) {
    const auto known = index_.find(path);
    if (known != index_.end()) {
      return names_[known->second];
    }
    index_.emplace(path, paths_.size());
    paths_.push_back(path);
    names_.push_back(unique_name(path));
    return names_.back();
  }

  // The path inside the directory. A file outside has only its file name, so that no name, and so
  // no cache key, depends on where the directory lies.
  std::string unique_name(const fs::path& path) {
    const fs::path relative = path.lexically_relative(root_);
    const bool outside = relative.empty() || *relative.begin() == "..";
    const std::string wanted = outside ? "outside/" + path.filename().string() : relative.string();
    std::string name = wanted;
    for (int i = 2; registry::find_embedded(name) != nullptr || !taken_.insert(name).second; ++i) {
      name = fmt::format("{}/{}", i, wanted);
    }
    return name;
  }

  std::string directory_;  // As given, for messages.
  fs::path root_;
  std::vector<fs::path> paths_;     // Canonical.
  std::vector<std::string> names_;  // As paths_.
  std::map<fs::path, std::size_t> index_;
  std::set<std::string> taken_;
  std::vector<SourceFile> files_;
};

}  // namespace

std::vector<SourceFile> headers_from(const std::string& directory, const std::string& entry) {
  return SourceReader(directory).run(entry);
}

}  // namespace kiln
