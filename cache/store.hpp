#pragma once

/// \file
/// The cache: one writable directory and any number of read-only ones, asked in order.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/logger.hpp"
#include "base/result.hpp"
#include "cache/entry.hpp"
#include "cache/file_system.hpp"
#include "cache/inventory.hpp"
#include "cache/key.hpp"
#include "cache/layer_stack.hpp"
#include "cache/limits.hpp"
#include "cache/lock_table.hpp"
#include "cache/root.hpp"
#include "cache/root_plan.hpp"
#include "cache/trimmer.hpp"

namespace kiln::cache {

struct StoreOptions {
  RootInputs root;
  /// Directories and pack files by absolute paths, asked in this order, after the root.
  std::vector<std::string> read_only_layers;
  /// Public key files by absolute paths. With any, only packs signed by one of them are used.
  std::vector<std::string> trusted_keys;
  Match layer_match = Match::kAny;
  Limits limits;  ///< Of the writable root.
  /// False where nothing will be published: a root that cannot be written is then no warning.
  bool publishes = true;
  Logger logger{LogSink{}};
  LockTimes lock_times;
  std::shared_ptr<FileSystem> file_system;  ///< Null: the operating system's.
  std::shared_ptr<WaitClock> wait_clock;    ///< Null: the machine's.
};

/// What one layer served.
struct LayerHits {
  std::string layer;  ///< Its path.
  std::uint64_t hits = 0;
};

/// Counts since the store was made.
struct StoreCounters {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t bytes_read = 0;  ///< Of the files that hits came from.
  std::uint64_t published = 0;
  std::uint64_t bytes_written = 0;   ///< Of published files.
  std::uint64_t write_failures = 0;  ///< Publishes that reached no directory.
  std::uint64_t rejected = 0;        ///< Entries that failed a check or that a caller rejected.
  std::uint64_t removed_temporaries = 0;  ///< Files that writers left when they died.
  std::uint64_t trimmed = 0;              ///< Files removed to stay within the limits.
  std::vector<LayerHits> layers;          ///< In the order in which they are asked.
};

/// How a layer stands.
struct LayerState {
  std::string name;  ///< Its path.
  bool writable = false;
  bool usable = false;
  std::string problem;  ///< Why not, when not usable. One that is not there yet has none.
};

/// What gc() did.
struct GcReport {
  TrimReport trim;
  std::uint64_t temporaries = 0;  ///< Dead writers' files that were removed.
};

/// Thread-safe, and safe among any number of processes without locks: an entry appears by one
/// rename and never changes. A failure of the disk is a miss or a Failure value here, and one
/// warning; it is never the user's failure.
class Store {
 public:
  /// Chooses the root. Writes nothing and never fails. A root that cannot be written is read, as a
  /// read-only layer ahead of the others; new entries then have no place if the root was named, or
  /// go to fallback_root() if it was a default. One warning then names KILN_CACHE_DIR.
  explicit Store(StoreOptions options);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Finds the first entry that passes all checks: targets outermost, then layers, then toolchains.
  /// With a toolchain, the writable root is asked for exactly that one; read-only layers follow
  /// StoreOptions::layer_match and prefer it. Otherwise newer toolchains come first. Makes at most
  /// one successful open, plus one for each file that fails a check. A target's toolchain folders
  /// are listed once per layer in the store's life.
  std::optional<Hit> lookup(const Query& query);

  /// For a kernel that is missing and about to be compiled: waits while another thread or process
  /// that uses this root compiles it, so that the next lookup may find it. Look it up again
  /// whatever the result; if it is still missing, compile it, publish it, and only then let go of
  /// the lock. Holds nothing when waiting is of no use: see LockTable::acquire.
  CompileLock lock(const SourceKey& source, const ToolchainKey& toolchain);
  /// Ends all waits for locks, and allows no new ones until it is called with false.
  void stop_waiting(bool stop) noexcept;

  /// Stores the entry under its keys. A Failure says why it was not stored; the caller logs
  /// nothing, keeps its bytes and goes on. Losing a race to another writer is success. A full or
  /// read-only disk turns further writes of this store off.
  Status publish(const Entry& entry);

  /// Whether an entry could be stored now, found out by writing a file where entries are written,
  /// and removing it; makes the root where it is missing. A Failure says what the reader can do.
  Status try_write();

  /// The caller could not use a hit: the next lookup will not give it again. In the writable root
  /// the file moves to the quarantine folder; elsewhere it is remembered and skipped. Logged once.
  void reject(const Hit& hit, std::string_view reason);

  /// Every entry of every layer, read and checked. Changes nothing.
  std::vector<ListedEntry> list();
  /// Those that are not ok.
  std::vector<ListedEntry> verify();
  /// Reads and checks an entry that list() named.
  Result<Entry> read(const ListedEntry& listed);
  /// Removes entries, quarantine and leftovers from the writable root, and nothing else; gives the
  /// number of entries removed. Warns once of what is not the cache's and was left.
  Result<std::uint64_t> clear();
  /// Trims the writable root to these limits now, and removes what dead writers left.
  Result<GcReport> gc(const Limits& limits);
  /// Of the root and every layer together. A chosen root that cannot be used is a problem, too.
  StoreUsage stat();

  StoreCounters counters() const;
  std::vector<LayerState> layers();
  const RootPlan& plan() const noexcept;
  const Limits& limits() const noexcept;

  /// "/home/u/.cache/kiln (HOME), writable": what was chosen, why, and where new entries go.
  std::string root_description() const;
  /// Where new entries go; empty when they have no place.
  std::string writable_root() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kiln::cache
