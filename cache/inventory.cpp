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

Result<std::string> read_entry_file(FileSystem& file_system, const std::string& path) {
  auto content = read_file(file_system, path, kMaxEntryBytes);
  if (!content) {
    return fail(ErrorCode::kIo, "it cannot be read: " + errno_text(content.error()));
  }
  return std::move(content->bytes);
}

std::uint64_t size_of(FileSystem& file_system, const std::string& path) {
  const auto status = file_system.status(path);
  return status ? status->size : 0;
}

}  // namespace

Result<Entry> decode_entry_at(const EntryAddress& address, std::string file) {
  auto entry = decode_entry(std::move(file));
  if (!entry) {
    return entry;
  }
  if (entry->source.target != address.target || entry->source.digest != address.source) {
    return fail(ErrorCode::kIo, "it holds another kernel than its name says");
  }
  if (entry->toolchain.folder_key() != address.toolchain) {
    return fail(ErrorCode::kIo, "it was made by another toolchain than its folder says");
  }
  return entry;
}

ListedEntry describe_entry(const EntryAddress& address, Result<std::string> file) {
  ListedEntry listed;
  listed.target = address.target;
  listed.toolchain = address.toolchain.name();
  listed.source = address.source.hex();
  listed.bytes = file ? file->size() : 0;
  const auto entry = file ? decode_entry_at(address, std::move(*file))
                          : Result<Entry>(tl::unexpected(std::move(file.error())));
  if (!entry) {
    listed.problem = entry.error().message;
    return listed;
  }
  listed.symbol = entry->symbol;
  listed.label = entry->label;
  listed.ok = true;
  return listed;
}

Result<std::vector<EntryAddress>> entry_addresses(FileSystem& file_system, const Layout& layout) {
  std::vector<EntryAddress> addresses;
  std::string problem;
  Visitor visitor;
  visitor.entry = [&](const Found& found) { addresses.push_back(found.address); };
  visitor.fail = [&](const std::string& folder, int error) {
    problem = fmt::format("the folder {} cannot be listed: {}", folder, errno_text(error));
  };
  walk(file_system, layout, visitor);
  if (!problem.empty()) {
    return fail(ErrorCode::kIo, problem);
  }
  return addresses;
}

std::vector<ListedEntry> list_entries(FileSystem& file_system, const Layout& layout) {
  std::vector<ListedEntry> entries;
  Visitor visitor;
  visitor.entry = [&](const Found& found) {
    ListedEntry listed = describe_entry(found.address, read_entry_file(file_system, found.path));
    listed.path = found.path;
    listed.layer = layout.root();
    entries.push_back(std::move(listed));
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
