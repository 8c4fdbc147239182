#include "cache/clear.hpp"

#include <cerrno>

#include <fmt/format.h>

#include "cache/quarantine.hpp"
#include "cache/walk.hpp"
#include "cache/writer.hpp"

namespace kiln::cache {
namespace {

class Clearing {
 public:
  Clearing(FileSystem& file_system, const Layout& layout)
      : file_system_(file_system), layout_(layout) {
    visitor_.entry = [this](const FoundEntry& found) {
      report_.removed += remove(found.path) ? 1U : 0U;
    };
    // A folder that is not empty now holds something that is not ours, or that came meanwhile.
    visitor_.leave = [this](const std::string& folder) {
      static_cast<void>(file_system_.remove_directory(folder));
    };
    visitor_.foreign = [this](const std::string& path) { report_.foreign.push_back(path); };
    visitor_.fail = [this](const std::string& path, int error) {
      if (report_.problem.empty()) {
        report_.problem = fmt::format("cannot clear {}: {}", path, errno_text(error));
      }
    };
  }

  ClearReport run() && {
    walk(file_system_, layout_, visitor_);
    clear_folder(layout_.quarantine(), is_quarantine_name);
    clear_folder(layout_.temporary(), is_temporary_name);
    visitor_.leave(layout_.top());
    return std::move(report_);
  }

 private:
  void clear_folder(const std::string& folder, bool (*is_ours)(std::string_view)) {
    for (const std::string& name : sorted_names(file_system_, folder, visitor_)) {
      const std::string path = fmt::format("{}/{}", folder, name);
      if (is_ours(name)) {
        remove(path);
      } else {
        visitor_.foreign(path);
      }
    }
    visitor_.leave(folder);
  }

  bool remove(const std::string& path) {
    const auto done = file_system_.remove(path);
    if (done || done.error() == ENOENT) {
      return done.has_value();
    }
    if (done.error() != EISDIR) {
      visitor_.fail(path, done.error());
    } else if (!file_system_.remove_directory(path)) {
      visitor_.foreign(path);  // A folder in a file's place that holds something.
    }
    return false;
  }

  FileSystem& file_system_;
  const Layout& layout_;
  Visitor visitor_;
  ClearReport report_;
};

}  // namespace

ClearReport clear_root(FileSystem& file_system, const Layout& layout) {
  return Clearing(file_system, layout).run();
}

}  // namespace kiln::cache
