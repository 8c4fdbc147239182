#include "cache/inventory.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "cache/walk.hpp"

namespace kiln::cache {
namespace {

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

Result<Entry> decode_entry_at(const EntryAddress& address, EntryFile file) {
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

ListedEntry describe_entry(const EntryAddress& address, Result<EntryFile> file) {
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
  visitor.entry = [&](const FoundEntry& found) { addresses.push_back(found.address); };
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
  visitor.entry = [&](const FoundEntry& found) {
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
  visitor.entry = [&](const FoundEntry& found) {
    ++usage.entries;
    usage.bytes += size_of(file_system, found.path);
  };
  visitor.fail = [&](const std::string& folder, int error) {
    if (usage.problem.empty()) {
      usage.problem = fmt::format("{} cannot be listed: {}", folder, errno_text(error));
    }
  };
  walk(file_system, layout, visitor);
  usage.quarantined = sorted_names(file_system, layout.quarantine(), visitor).size();
  return usage;
}

}  // namespace kiln::cache
