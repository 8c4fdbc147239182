#include "cache/store.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include <fmt/format.h>

#include "cache/clear.hpp"
#include "cache/directory_layer.hpp"
#include "cache/pack_layer.hpp"
#include "cache/publisher.hpp"
#include "cache/root_plan.hpp"
#include "cache/temporaries.hpp"

namespace kiln::cache {
namespace {

// After these, trying again soon would only cost time and repeat the message.
bool lasts(int code) {
  return code == ENOSPC || code == EDQUOT || code == EROFS || code == EACCES || code == EPERM;
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

  CompileLock lock(const SourceKey& source, const ToolchainKey& toolchain);
  void stop_waiting(bool stop) noexcept {
    if (locks_) {
      locks_->stop_waiting(stop);
    }
  }
  Status publish(const Entry& entry);
  Status try_write();
  /// Null when no layer that may be used has this name.
  Layer* usable_layer(std::string_view name);

  template <class Function>
  void for_each_usable_layer(Function&& function) {
    for (const auto& layer : layers_.all()) {
      if (layer->check()) {
        function(*layer);
      }
    }
  }

  const RootPlan& plan() const noexcept { return plan_; }
  const Limits& limits() const noexcept { return limits_; }
  LayerStack& layers() noexcept { return layers_; }

  /// Notes a hit in the counters and, where limits call for it, in the entry's stamp.
  void use(const Hit& hit);
  Result<std::uint64_t> clear();
  Result<GcReport> gc(const Limits& limits);
  std::vector<LayerState> layer_states();
  StoreCounters counters() const;

  std::atomic<std::uint64_t> misses = 0;
  std::atomic<std::uint64_t> published = 0;
  std::atomic<std::uint64_t> write_failures = 0;

 private:
  void add_read_only(const std::string& path);
  void finish_publish(const Entry& entry, std::uint64_t bytes);
  /// Where several users make folders, one may be met before it has its mode.
  bool passes(int code) const noexcept { return plan_.modes.exact && code == EACCES; }
  tl::unexpected<Failure> no_writable_root(std::string_view undone) const;

  std::shared_ptr<FileSystem> file_system_;
  Logger logger_;
  RootPlan plan_;
  const PackTrust pack_trust_;
  Rejects rejects_;
  LayerStack layers_;
  DirectoryLayer* writable_ = nullptr;  // One of layers_'s layers, or null.
  std::optional<Publisher> publisher_;  // Into writable_.
  std::optional<LockTable> locks_;      // Of writable_.
  const Limits limits_;
  std::optional<Trimmer> trimmer_;                // Of writable_.
  std::vector<LayerState> left_out_;              // Layers that can never be asked.
  std::vector<std::atomic<std::uint64_t>> hits_;  // One for each layer.
  std::atomic<std::uint64_t> bytes_read_ = 0;
  std::atomic<std::uint64_t> bytes_written_ = 0;
  std::atomic<std::uint64_t> removed_temporaries_ = 0;
  std::atomic<bool> writes_off_ = false;
  std::atomic<bool> collected_ = false;  // Dead writers' temporary files, at the first publish.
};

Store::Impl::Impl(StoreOptions options)
    : file_system_(options.file_system ? std::move(options.file_system)
                                       : std::make_shared<PosixFileSystem>()),
      logger_(std::move(options.logger)),
      plan_(plan_root(*file_system_, options.root)),
      pack_trust_{plan_.policy,
                  read_trusted_keys(*file_system_, options.trusted_keys, plan_.policy)},
      rejects_(*file_system_, logger_, plan_.modes),
      layers_(options.layer_match, logger_, rejects_),
      limits_(options.limits) {
  if (!plan_.writable.empty()) {
    writable_ = &layers_.add_writable(
        std::make_unique<DirectoryLayer>(*file_system_, plan_.writable, plan_.role, plan_.policy));
    publisher_.emplace(*file_system_, *writable_, plan_);
    locks_.emplace(*file_system_, writable_->layout(), *publisher_, logger_, options.lock_times,
                   options.wait_clock);
    trimmer_.emplace(*file_system_, writable_->layout(), limits_, logger_);
  }
  if (!plan_.read_only.empty()) {
    layers_.add(
        std::make_unique<DirectoryLayer>(*file_system_, plan_.read_only, plan_.role, plan_.policy));
  }
  for (const std::string& path : options.read_only_layers) {
    add_read_only(path);
  }
  hits_ = std::vector<std::atomic<std::uint64_t>>(layers_.all().size());
  const bool trusted = plan_.verdict.kind == Verdict::Kind::kTrusted;
  if (!plan_.warning.empty() && (options.publishes || !trusted)) {
    logger_.warn_once("cache.root", plan_.warning);
  }
}

void Store::Impl::add_read_only(const std::string& path) {
  const auto leave_out = [&](const std::string& reason) {
    left_out_.push_back({path, false, false, reason});
    logger_.warn_once("cache.layer:" + path,
                      fmt::format("cache: layer {} is left out: {}.", path, reason));
  };
  if (!path.starts_with('/')) {
    return leave_out(
        "it is not an absolute path, and nothing is found through the working "
        "directory");
  }
  const auto canonical = file_system_->canonical(path);
  if (!canonical) {
    return leave_out(errno_text(canonical.error()));
  }
  // What does not exist yet may become a directory; a pack is there from the start.
  const auto status = file_system_->status(*canonical);
  if (status && status->kind != FileStatus::Kind::kDirectory) {
    layers_.add(std::make_unique<PackLayer>(*file_system_, *canonical, &pack_trust_));
  } else {
    layers_.add(std::make_unique<DirectoryLayer>(*file_system_, *canonical,
                                                 TrustRole::kReadOnlyLayer, plan_.policy));
  }
}

Layer* Store::Impl::usable_layer(std::string_view name) {
  Layer* found = nullptr;
  for_each_usable_layer([&](Layer& layer) {
    if (found == nullptr && layer.name() == name) {
      found = &layer;
    }
  });
  return found;
}

CompileLock Store::Impl::lock(const SourceKey& source, const ToolchainKey& toolchain) {
  // Where nothing can be stored, the one who waits would find nothing.
  if (!locks_ || writes_off_.load(std::memory_order_relaxed)) {
    return {};
  }
  return locks_->acquire(source.digest, toolchain.digest);
}

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
  if (!collected_.exchange(true, std::memory_order_relaxed) && writable_->check()) {
    removed_temporaries_ += collect_temporaries(*file_system_, writable_->layout());
  }
  const auto written = publisher_->write(entry);
  if (written) {
    finish_publish(entry, *written);
    return {};
  }
  const IoFailure& failure = written.error();
  const bool off = lasts(failure.code) && !passes(failure.code);
  if (off) {
    writes_off_.store(true, std::memory_order_relaxed);
  }
  logger_.warn_once("cache.disk",
                    fmt::format("cache: {}. {} {}", failure.what,
                                off ? "New kernels stay in memory from now on."
                                    : "The kernel stays in memory; this is said once.",
                                plan_.remedy));
  return fail(ErrorCode::kIo, failure.what);
}

Status Store::Impl::try_write() {
  if (writable_ == nullptr) {
    return fail(ErrorCode::kIo, fmt::format("{}. {}", plan_.description, remedies(plan_)));
  }
  const auto written = publisher_->try_write();
  return written || passes(written.error().code)
             ? Status()
             : fail(ErrorCode::kIo, fmt::format("{}. {}", written.error().what, plan_.remedy));
}

void Store::Impl::finish_publish(const Entry& entry, std::uint64_t bytes) {
  bytes_written_.fetch_add(bytes, std::memory_order_relaxed);
  const std::string path = writable_->layout().entry(
      {entry.source.target, entry.toolchain.folder_key(), entry.source.digest});
  rejects_.forget(path);
  // Should the machine crash before the folder is on the disk, the entry is a miss again.
  if (const auto synced = publisher_->sync_folder_of(entry); !synced) {
    logger_.warn_once("cache.disk", fmt::format("cache: {}.", synced.error().what));
  }
  trimmer_->published(path, bytes);
}

void Store::Impl::use(const Hit& hit) {
  hits_[hit.layer].fetch_add(1, std::memory_order_relaxed);
  bytes_read_.fetch_add(hit.bytes, std::memory_order_relaxed);
  if (layers_.is_writable(hit.layer)) {
    trimmer_->used(hit.path, hit.modified);
  }
}

tl::unexpected<Failure> Store::Impl::no_writable_root(std::string_view undone) const {
  return fail(ErrorCode::kIo, fmt::format("nothing can be {}: {}", undone, plan_.description));
}

Result<std::uint64_t> Store::Impl::clear() {
  if (writable_ == nullptr) {
    return no_writable_root("cleared");
  }
  const ClearReport report = clear_root(*file_system_, writable_->layout());
  if (!report.foreign.empty()) {
    logger_.warn_once("cache.foreign",
                      fmt::format("cache: what is not of the cache was left: {} in all, the first "
                                  "of them {}.",
                                  report.foreign.size(), report.foreign.front()));
  }
  if (!report.problem.empty()) {
    return fail(ErrorCode::kIo, report.problem);
  }
  return report.removed;
}

Result<GcReport> Store::Impl::gc(const Limits& limits) {
  if (writable_ == nullptr) {
    return no_writable_root("trimmed");
  }
  if (const auto usable = writable_->check();
      !usable && usable.error().kind != LayerFailure::Kind::kAbsent) {
    return fail(ErrorCode::kIo,
                fmt::format("{} is not used: {}", usable.error().place, usable.error().reason));
  }
  const std::uint64_t temporaries = collect_temporaries(*file_system_, writable_->layout());
  removed_temporaries_ += temporaries;
  return GcReport{trimmer_->trim(limits), temporaries};
}

std::vector<LayerState> Store::Impl::layer_states() {
  std::vector<LayerState> states;
  for (const auto& layer : layers_.all()) {
    const auto usable = layer->check();
    const bool absent = !usable && usable.error().kind == LayerFailure::Kind::kAbsent;
    states.push_back({layer->name(), layer.get() == writable_, usable.has_value(),
                      usable || absent ? "" : usable.error().reason});
  }
  states.insert(states.end(), left_out_.begin(), left_out_.end());
  return states;
}

StoreCounters Store::Impl::counters() const {
  const auto get = [](const std::atomic<std::uint64_t>& counter) {
    return counter.load(std::memory_order_relaxed);
  };
  StoreCounters counters;
  for (std::size_t i = 0; i < hits_.size(); ++i) {
    counters.layers.push_back({layers_.all()[i]->name(), get(hits_[i])});
    counters.hits += counters.layers.back().hits;
  }
  counters.misses = get(misses);
  counters.bytes_read = get(bytes_read_);
  counters.published = get(published);
  counters.bytes_written = get(bytes_written_);
  counters.write_failures = get(write_failures);
  counters.rejected = rejects_.count();
  counters.removed_temporaries = get(removed_temporaries_);
  counters.trimmed = trimmer_ ? trimmer_->trimmed() : 0;
  return counters;
}

Store::Store(StoreOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Store::~Store() = default;

std::optional<Hit> Store::lookup(const Query& query) {
  auto hit = impl_->layers().find(query);
  if (hit) {
    impl_->use(*hit);
  } else if (!query.asked_before) {
    impl_->misses.fetch_add(1, std::memory_order_relaxed);
  }
  return hit;
}

CompileLock Store::lock(const SourceKey& source, const ToolchainKey& toolchain) {
  return impl_->lock(source, toolchain);
}

void Store::stop_waiting(bool stop) noexcept {
  impl_->stop_waiting(stop);
}

Status Store::publish(const Entry& entry) {
  auto status = impl_->publish(entry);
  (status ? impl_->published : impl_->write_failures).fetch_add(1, std::memory_order_relaxed);
  return status;
}

Status Store::try_write() {
  return impl_->try_write();
}

void Store::reject(const Hit& hit, std::string_view reason) {
  impl_->layers().reject(hit, reason);
}

std::vector<ListedEntry> Store::list() {
  std::vector<ListedEntry> all;
  impl_->for_each_usable_layer([&](Layer& layer) {
    auto entries = layer.list();
    std::move(entries.begin(), entries.end(), std::back_inserter(all));
  });
  return all;
}

std::vector<ListedEntry> Store::verify() {
  auto entries = list();
  std::erase_if(entries, [](const ListedEntry& entry) { return entry.ok; });
  return entries;
}

Result<Entry> Store::read(const ListedEntry& listed) {
  const auto toolchain = ToolchainKey::parse_folder(listed.toolchain);
  const auto source = Digest::parse(listed.source);
  Layer* layer = impl_->usable_layer(listed.layer);
  if (!toolchain || !source || layer == nullptr) {
    return fail(ErrorCode::kIo, "no entry is listed like this");
  }
  auto read = layer->read({listed.target, *toolchain, *source});
  return read ? decode_entry(std::move(read->bytes))
              : Result<Entry>(fail(ErrorCode::kIo, "it cannot be read: " + read.error().reason));
}

Result<std::uint64_t> Store::clear() {
  return impl_->clear();
}

Result<GcReport> Store::gc(const Limits& limits) {
  return impl_->gc(limits);
}

StoreUsage Store::stat() {
  StoreUsage total;
  if (!impl_->plan().verdict.ok()) {
    total.problem = impl_->plan().description;
  }
  for (const LayerState& layer : impl_->layer_states()) {
    if (!layer.problem.empty() && total.problem.empty()) {
      total.problem = fmt::format("{} is not used: {}", layer.name, layer.problem);
    }
  }
  impl_->for_each_usable_layer([&](Layer& layer) {
    StoreUsage usage = layer.usage();
    total.entries += usage.entries;
    total.bytes += usage.bytes;
    total.quarantined += usage.quarantined;
    if (total.problem.empty()) {
      total.problem = std::move(usage.problem);
    }
  });
  return total;
}

StoreCounters Store::counters() const {
  return impl_->counters();
}

std::vector<LayerState> Store::layers() {
  return impl_->layer_states();
}

const RootPlan& Store::plan() const noexcept {
  return impl_->plan();
}

const Limits& Store::limits() const noexcept {
  return impl_->limits();
}

std::string Store::root_description() const {
  return impl_->plan().description;
}

std::string Store::writable_root() const {
  return impl_->plan().writable;
}

}  // namespace kiln::cache
