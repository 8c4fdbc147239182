#include "cache/store.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>

#include <fmt/format.h>

#include "cache/directory_layer.hpp"
#include "cache/publisher.hpp"
#include "cache/quarantine.hpp"
#include "cache/root_plan.hpp"

namespace kiln::cache {
namespace {

// After these, trying again soon would only cost time and repeat the message.
bool lasts(int code) {
  return code == ENOSPC || code == EDQUOT || code == EROFS || code == EACCES || code == EPERM;
}

bool absent(int code) {
  return code == ENOENT || code == ENOTDIR;
}

// Links, folders, pipes, devices and huge files in an entry's place.
bool not_an_entry(int code) {
  return code == ELOOP || code == EINVAL || code == EFBIG;
}

// Reads an entry and compares it with what was asked for: the material, not just its digest.
Result<Entry> decode_for(std::string bytes, const SourceKey& source, const ToolchainFolder& folder,
                         const ToolchainKey* toolchain) {
  auto entry = decode_entry(std::move(bytes));
  if (!entry) {
    return entry;
  }
  if (entry->source.target != source.target || entry->source.material != source.material) {
    return fail(ErrorCode::kIo, "it holds another kernel than its name says");
  }
  const bool expected_material = toolchain == nullptr || toolchain->digest != folder.digest ||
                                 toolchain->material == entry->toolchain.material;
  if (entry->toolchain.folder_key() != folder || !expected_material) {
    return fail(ErrorCode::kIo, "it was made by another toolchain than its folder says");
  }
  return entry;
}

// What publish would store must be what a lookup accepts.
Status check_publishable(const Entry& entry) {
  if (!Layout::is_target_name(entry.source.target)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' cannot name a target's folder", entry.source.target));
  }
  if (entry.image.empty() || entry.symbol.empty()) {
    return fail(ErrorCode::kInvalidArgument, "an entry needs an image and a symbol");
  }
  if (entry.source.digest != digest(entry.source.material) ||
      entry.toolchain.digest != digest(entry.toolchain.material)) {
    return fail(ErrorCode::kInvalidArgument, "a key's digest is not the one of its material");
  }
  return {};
}

}  // namespace

class Store::Impl {
 public:
  explicit Impl(StoreOptions options);

  std::optional<Hit> find_in(DirectoryLayer& layer, const SourceKey& source, const Query& query);
  Status publish(const Entry& entry);
  void discard(const std::string& path, const std::optional<FileId>& file, std::string_view reason);

  template <class Function>
  void for_each_layer(Function&& function) {
    for (const auto& layer : layers_) {
      if (layer->check_owner()) {
        function(layer->layout());
      }
    }
  }

  FileSystem& file_system() noexcept { return *file_system_; }
  const RootPlan& plan() const noexcept { return plan_; }
  const DirectoryLayer* writable() const noexcept { return writable_; }
  auto& layers() noexcept { return layers_; }

  std::atomic<std::uint64_t> hits = 0;
  std::atomic<std::uint64_t> misses = 0;
  std::atomic<std::uint64_t> published = 0;
  std::atomic<std::uint64_t> write_failures = 0;
  std::atomic<std::uint64_t> rejected = 0;

 private:
  std::vector<ToolchainFolder> candidates(DirectoryLayer& layer, const std::string& target,
                                          const Query& query);
  std::optional<Hit> open_candidate(const EntryAddress& address, const std::string& path,
                                    const SourceKey& source, const Query& query);
  bool is_skipped(const std::string& path);
  void skip(const std::string& path);
  void unskip(const std::string& path);
  void warn_unreadable(const std::string& path, int error);

  std::shared_ptr<FileSystem> file_system_;
  Logger logger_;
  const Match layer_match_;
  RootPlan plan_;
  std::vector<std::unique_ptr<DirectoryLayer>> layers_;  // In the order in which they are asked.
  DirectoryLayer* writable_ = nullptr;                   // One of layers_, or null.
  std::optional<Publisher> publisher_;                   // Into writable_.
  std::atomic<bool> writes_off_ = false;

  std::mutex skipped_mutex_;
  std::set<std::string> skipped_;  // Guarded by skipped_mutex_: rejected, and still in place.
};

Store::Impl::Impl(StoreOptions options)
    : file_system_(options.file_system ? std::move(options.file_system)
                                       : std::make_shared<PosixFileSystem>()),
      logger_(std::move(options.logger)),
      layer_match_(options.layer_match),
      plan_(plan_root(*file_system_, options.root)) {
  if (!plan_.writable.empty()) {
    layers_.push_back(
        std::make_unique<DirectoryLayer>(*file_system_, plan_.writable, plan_.required_owner));
    writable_ = layers_.back().get();
    publisher_.emplace(*file_system_, *writable_, plan_);
  }
  if (!plan_.read_only.empty()) {
    layers_.push_back(std::make_unique<DirectoryLayer>(*file_system_, plan_.read_only));
  }
  for (const std::string& path : options.read_only_layers) {
    const auto canonical = file_system_->canonical(path);
    if (!canonical) {
      logger_.warn_once("cache.layer:" + path, fmt::format("cache: layer {} is left out: {}", path,
                                                           errno_text(canonical.error())));
      continue;
    }
    layers_.push_back(std::make_unique<DirectoryLayer>(*file_system_, *canonical));
  }
  if (!plan_.warning.empty()) {
    logger_.warn_once("cache.root", plan_.warning);
  }
}

// ------------------------------------------------------------------------------------------------
// Lookup

std::vector<ToolchainFolder> Store::Impl::candidates(DirectoryLayer& layer,
                                                     const std::string& target,
                                                     const Query& query) {
  const bool exact = &layer == writable_ || layer_match_ == Match::kExact;
  if (query.toolchain != nullptr && exact) {
    return {query.toolchain->folder_key()};
  }
  auto listed = layer.toolchains(target);
  if (!listed) {
    warn_unreadable(layer.layout().target(target), listed.error());
    return {};
  }
  std::vector<ToolchainFolder> folders = std::move(*listed);
  const auto is_own = [&](const ToolchainFolder& folder) {
    return query.toolchain != nullptr && folder == query.toolchain->folder_key();
  };
  std::erase_if(folders, [&](const ToolchainFolder& folder) {
    return query.max_toolchain_major && folder.major > *query.max_toolchain_major &&
           !is_own(folder);
  });
  std::stable_partition(folders.begin(), folders.end(), is_own);
  return folders;
}

std::optional<Hit> Store::Impl::find_in(DirectoryLayer& layer, const SourceKey& source,
                                        const Query& query) {
  if (const auto owned = layer.check_owner(); !owned) {
    if (!absent(owned.error())) {
      warn_unreadable(layer.layout().root(), owned.error());
    }
    return std::nullopt;
  }
  for (const ToolchainFolder& folder : candidates(layer, source.target, query)) {
    const EntryAddress address{source.target, folder, source.digest};
    const std::string path = layer.layout().entry(address);
    if (is_skipped(path)) {
      continue;
    }
    if (auto hit = open_candidate(address, path, source, query)) {
      return hit;
    }
  }
  return std::nullopt;
}

std::optional<Hit> Store::Impl::open_candidate(const EntryAddress& address, const std::string& path,
                                               const SourceKey& source, const Query& query) {
  auto content = read_file(*file_system_, path, kMaxEntryBytes);
  if (!content) {
    const int error = content.error();
    if (not_an_entry(error)) {
      discard(path, std::nullopt, "it is not a plain file: " + errno_text(error));
    } else if (!absent(error)) {
      warn_unreadable(path, error);
    }
    return std::nullopt;
  }
  auto entry = decode_for(std::move(content->bytes), source, address.toolchain, query.toolchain);
  if (!entry) {
    discard(path, content->id, entry.error().message);
    return std::nullopt;
  }
  return Hit{std::move(*entry), path, content->id};
}

void Store::Impl::warn_unreadable(const std::string& path, int error) {
  logger_.warn_once("cache.read",
                    fmt::format("cache: {} cannot be read: {}. Kernels that cannot be "
                                "read are compiled; this is said once.",
                                path, errno_text(error)));
}

// ------------------------------------------------------------------------------------------------
// Rejected entries

bool Store::Impl::is_skipped(const std::string& path) {
  const std::lock_guard lock(skipped_mutex_);
  return !skipped_.empty() && skipped_.contains(path);
}

void Store::Impl::skip(const std::string& path) {
  const std::lock_guard lock(skipped_mutex_);
  skipped_.insert(path);
}

void Store::Impl::unskip(const std::string& path) {
  const std::lock_guard lock(skipped_mutex_);
  skipped_.erase(path);
}

void Store::Impl::discard(const std::string& path, const std::optional<FileId>& file,
                          std::string_view reason) {
  rejected.fetch_add(1, std::memory_order_relaxed);
  std::string fate = "it is skipped";
  // What is not a plain file stays where it is: moving it could reach out of the cache.
  if (file && writable_ != nullptr && writable_->layout().contains(path)) {
    const auto now = file_system_->status(path);
    if (now ? now->id != *file : absent(now.error())) {
      return;  // Another process has replaced or moved it already.
    }
    const auto moved = move_to_quarantine(*file_system_, writable_->layout(), path);
    if (moved) {
      fate = "it was moved to " + *moved;
    } else if (absent(moved.error())) {
      return;
    } else {
      skip(path);
    }
  } else {
    skip(path);
  }
  logger_.warn_once("cache.reject:" + path,
                    fmt::format("cache: {} is not used: {}; {}.", path, reason, fate));
}

// ------------------------------------------------------------------------------------------------
// Publish

Status Store::Impl::publish(const Entry& entry) {
  if (auto checked = check_publishable(entry); !checked) {
    return checked;
  }
  if (writable_ == nullptr) {
    return fail(ErrorCode::kIo, "the cache has no directory to write to: " + plan_.description);
  }
  if (writes_off_.load(std::memory_order_relaxed)) {
    return fail(ErrorCode::kIo, fmt::format("writing to the cache {} was turned off by an earlier "
                                            "failure",
                                            writable_->layout().root()));
  }
  const auto written = publisher_->write(entry);
  if (written) {
    const Layout& layout = writable_->layout();
    unskip(layout.entry({entry.source.target, entry.toolchain.folder_key(), entry.source.digest}));
    // Should the machine crash before the folder is on the disk, the entry is a miss again.
    if (const auto synced = publisher_->sync_folder_of(entry); !synced) {
      logger_.warn_once("cache.write", fmt::format("cache: {}.", synced.error().what));
    }
    return {};
  }
  const IoFailure& failure = written.error();
  const bool off = lasts(failure.code);
  if (off) {
    writes_off_.store(true, std::memory_order_relaxed);
  }
  logger_.warn_once(off ? "cache.off" : "cache.write",
                    fmt::format("cache: {}. {} Set KILN_CACHE_DIR to another directory if this "
                                "lasts.",
                                failure.what,
                                off ? "New kernels stay in memory from now on."
                                    : "The kernel stays in memory; this is said once."));
  return fail(ErrorCode::kIo, failure.what);
}

// ------------------------------------------------------------------------------------------------
// The door

Store::Store(StoreOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Store::~Store() = default;

std::optional<Hit> Store::lookup(const Query& query) {
  for (const SourceKey& source : query.sources) {
    if (!Layout::is_target_name(source.target)) {
      continue;
    }
    for (const auto& layer : impl_->layers()) {
      if (auto hit = impl_->find_in(*layer, source, query)) {
        impl_->hits.fetch_add(1, std::memory_order_relaxed);
        return hit;
      }
    }
  }
  impl_->misses.fetch_add(1, std::memory_order_relaxed);
  return std::nullopt;
}

Status Store::publish(const Entry& entry) {
  auto status = impl_->publish(entry);
  (status ? impl_->published : impl_->write_failures).fetch_add(1, std::memory_order_relaxed);
  return status;
}

void Store::reject(const Hit& hit, std::string_view reason) {
  impl_->discard(hit.path, hit.file, reason);
}

std::vector<ListedEntry> Store::list() {
  std::vector<ListedEntry> all;
  impl_->for_each_layer([&](const Layout& layout) {
    auto entries = list_entries(impl_->file_system(), layout);
    std::move(entries.begin(), entries.end(), std::back_inserter(all));
  });
  return all;
}

std::vector<ListedEntry> Store::verify() {
  auto entries = list();
  std::erase_if(entries, [](const ListedEntry& entry) { return entry.ok; });
  return entries;
}

Result<Entry> Store::read(const std::string& path) {
  return read_entry(impl_->file_system(), path);
}

Result<std::uint64_t> Store::clear() {
  if (impl_->writable() == nullptr) {
    return fail(ErrorCode::kIo, "nothing can be cleared: " + impl_->plan().description);
  }
  return clear_entries(impl_->file_system(), impl_->writable()->layout());
}

StoreUsage Store::stat() {
  StoreUsage total;
  impl_->for_each_layer([&](const Layout& layout) {
    const StoreUsage usage = measure(impl_->file_system(), layout);
    total.entries += usage.entries;
    total.bytes += usage.bytes;
    total.quarantined += usage.quarantined;
  });
  return total;
}

StoreCounters Store::counters() const noexcept {
  const auto get = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  return {get(impl_->hits), get(impl_->misses), get(impl_->published), get(impl_->write_failures),
          get(impl_->rejected)};
}

std::string Store::root_description() const {
  return impl_->plan().description;
}

std::string Store::writable_root() const {
  return impl_->plan().writable;
}

}  // namespace kiln::cache
