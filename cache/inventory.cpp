#include "cache/inventory.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

struct Found {
  EntryAddress address;
  std::string path;
};

// What walk() calls; empty functions are not called.
struct Visitor {
  std::function<void(const Found&)> entry;            // Each file with an entry's place and name.
  std::function<void(const std::string&)> leave;      // Each folder, after its content.
  std::function<void(const std::string&, int)> fail;  // A folder that cannot be listed, and errno.
};

std::vector<std::string> sorted_names(FileSystem& file_system, const std::string& folder,
                                      const Visitor& visitor) {
  auto names = file_system.list(folder);
  if (!names) {
    if (visitor.fail && names.error() != ENOENT && names.error() != ENOTDIR) {
      visitor.fail(folder, names.error());
    }
    return {};
  }
  std::sort(names->begin(), names->end());
  return std::move(*names);
}

void walk_target(FileSystem& file_system, const Layout& layout, const std::string& target,
                 const Visitor& visitor) {
  for (const std::string& folder : sorted_names(file_system, layout.target(target), visitor)) {
    const auto toolchain = ToolchainKey::parse_folder(folder);
    if (!toolchain) {
      continue;
    }
    const std::string path = layout.toolchain(target, *toolchain);
    for (const std::string& name : sorted_names(file_system, path, visitor)) {
      if (const auto source = Layout::parse_entry_name(name)) {
        visitor.entry({{target, *toolchain, *source}, fmt::format("{}/{}", path, name)});
      }
    }
    if (visitor.leave) {
      visitor.leave(path);
    }
  }
}

// In the order of paths.
void walk(FileSystem& file_system, const Layout& layout, const Visitor& visitor) {
  for (const std::string& target : sorted_names(file_system, layout.top(), visitor)) {
    if (!Layout::is_target_name(target)) {
      continue;
    }
    walk_target(file_system, layout, target, visitor);
    if (visitor.leave) {
      visitor.leave(layout.target(target));
    }
  }
}

Result<Entry> read_entry(FileSystem& file_system, const std::string& path) {
  auto content = read_file(file_system, path, kMaxEntryBytes);
  if (!content) {
    return fail(ErrorCode::kIo, "it cannot be read: " + errno_text(content.error()));
  }
  return decode_entry(std::move(content->bytes));
}

std::string address_problem(const Entry& entry, const EntryAddress& address) {
  if (entry.source.target != address.target || entry.source.digest != address.source) {
    return "it holds another kernel than its name says";
  }
  if (entry.toolchain.folder_key() != address.toolchain) {
    return "it was made by another toolchain than its folder says";
  }
  return "";
}

std::uint64_t size_of(FileSystem& file_system, const std::string& path) {
  const auto status = file_system.status(path);
  return status ? status->size : 0;
}

ListedEntry describe(FileSystem& file_system, const Layout& layout, const Found& found) {
  ListedEntry listed;
  listed.path = found.path;
  listed.layer = layout.root();
  listed.target = found.address.target;
  listed.toolchain = found.address.toolchain.name();
  listed.source = found.address.source.hex();
  listed.bytes = size_of(file_system, found.path);
  const auto entry = read_entry(file_system, found.path);
  if (!entry) {
    listed.problem = entry.error().message;
    return listed;
  }
  listed.symbol = entry->symbol;
  listed.label = entry->label;
  listed.problem = address_problem(*entry, found.address);
  listed.ok = listed.problem.empty();
  return listed;
}

}  // namespace

std::vector<ListedEntry> list_entries(FileSystem& file_system, const Layout& layout) {
  std::vector<ListedEntry> entries;
  Visitor visitor;
  visitor.entry = [&](const Found& found) {
    entries.push_back(describe(file_system, layout, found));
  };
  visitor.fail = [&](const std::string& folder, int error) {
    ListedEntry unreadable;
    unreadable.path = folder;
    unreadable.layer = layout.root();
    unreadable.problem = "the folder cannot be listed: " + errno_text(error);
    entries.push_back(std::move(unreadable));
  };
  walk(file_system, layout, visitor);
  return entries;
}

StoreUsage measure(FileSystem& file_system, const Layout& layout) {
  StoreUsage usage;
  Visitor visitor;
  visitor.entry = [&](const Found& found) {
    ++usage.entries;
    usage.bytes += size_of(file_system, found.path);
  };
  walk(file_system, layout, visitor);
  usage.quarantined = sorted_names(file_system, layout.quarantine(), visitor).size();
  return usage;
}

Result<std::uint64_t> clear_entries(FileSystem& file_system, const Layout& layout) {
  std::uint64_t removed = 0;
  std::string problem;
  Visitor visitor;
  visitor.fail = [&](const std::string& path, int error) {
    if (problem.empty()) {
      problem = fmt::format("cannot clear {}: {}", path, errno_text(error));
    }
  };
  const auto remove = [&](const std::string& path) {
    const auto done = file_system.remove(path);
    if (!done && done.error() != ENOENT) {
      visitor.fail(path, done.error());
    }
    return done.has_value();
  };
  visitor.entry = [&](const Found& found) { removed += remove(found.path) ? 1U : 0U; };
  // A folder that is not empty now holds something that is not ours, or that came meanwhile.
  visitor.leave = [&](const std::string& folder) {
    static_cast<void>(file_system.remove_directory(folder));
  };
  walk(file_system, layout, visitor);
  for (const std::string& folder : {layout.quarantine(), layout.temporary()}) {
    for (const std::string& name : sorted_names(file_system, folder, visitor)) {
      remove(fmt::format("{}/{}", folder, name));
    }
    visitor.leave(folder);
  }
  visitor.leave(layout.top());
  if (!problem.empty()) {
    return fail(ErrorCode::kIo, problem);
  }
  return removed;
}

}  // namespace kiln::cache
