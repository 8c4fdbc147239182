#include "cache/temporaries.hpp"

#include <string>

#include <fmt/format.h>

#include "cache/atomic_file.hpp"
#include "cache/limits.hpp"
#include "cache/writer.hpp"

namespace kiln::cache {
namespace {

// The time by the clock that stamps the files of this folder.
Io<std::chrono::nanoseconds> file_system_time(FileSystem& file_system, const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, temporary_name(this_writer()));
  AtomicFile probe(file_system, path, path);  // Never committed, so it removes itself.
  // Without a byte, so that it also works on the full disk that needs a collection most.
  if (const auto written = probe.write("", 0600); !written) {
    return tl::unexpected(written.error().code);
  }
  const auto status = file_system.status(path);
  return status ? Io<std::chrono::nanoseconds>(status->modified) : tl::unexpected(status.error());
}

}  // namespace

std::uint64_t collect_temporaries(FileSystem& file_system, const Layout& layout) {
  const std::string folder = layout.temporary();
  auto names = file_system.list(folder);
  if (!names) {
    return 0;
  }
  std::erase_if(*names, [](const std::string& name) { return !is_temporary_name(name); });
  if (names->empty()) {
    return 0;  // As nearly always: then nothing is written to learn the time.
  }
  const auto now = file_system_time(file_system, folder);
  if (!now) {
    return 0;
  }
  std::uint64_t removed = 0;
  for (const std::string& name : *names) {
    const std::string path = fmt::format("{}/{}", folder, name);
    const auto status = file_system.status(path);
    if (status && status->kind == FileStatus::Kind::kFile &&
        (*now - status->modified > kTemporaryLife || status->modified - *now > kWrongClock)) {
      removed += file_system.remove(path) ? 1U : 0U;
    }
  }
  return removed;
}

}  // namespace kiln::cache
