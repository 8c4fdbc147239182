#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include <kiln/engine.hpp>

#include "base/result.hpp"
#include "cache/entry.hpp"
#include "cache/store.hpp"
#include "runtime/load_failure.hpp"
#include "runtime/nvrtc/compiler.hpp"
#include "runtime/nvrtc/toolchain.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {

/// A kernel that would do: what to compile and the key to look it up by.
struct Candidate {
  registry::CompileUnit unit;
  cache::SourceKey source;

  static Result<Candidate> of(const Variant& variant);
};

/// A kernel's entry and where it came from.
struct Obtained {
  std::shared_ptr<const cache::Entry> entry;
  std::size_t candidate = 0;  ///< Index of the candidate it answers.
  bool from_cache = false;    ///< Not compiled by this call.
  bool stored = false;        ///< Found in or published to a cache directory.
  std::string store_problem;  ///< Why not, when it was compiled and not stored.
};

/// Tries to use an entry, for example by loading it into the driver.
using Accept = std::function<tl::expected<void, LoadFailure>(const cache::Entry&)>;

/// Makes kernels appear: from the cache, else by compiling them into it. Finds NVRTC at the first
/// lookup and loads it at the first compile. All members may be called from any thread. A call that
/// misses waits while another thread or process compiles the same kernel into the same root (or one
/// in 256 others: they share locks), for no longer than StoreOptions::lock_times says; a hit waits
/// for nobody.
class KernelProvider {
 public:
  KernelProvider(cache::Store& store, ToolchainInputs inputs);

  /// The first candidate in the cache that `accept` takes, else the first that this NVRTC knows,
  /// compiled. An entry that the driver refuses is rejected and the next one tried; a fresh compile
  /// that it refuses is the error, and is not stored. `accept` may be empty. `driver_major` keeps
  /// entries of later CUDA majors out when any toolchain's will do.
  Result<Obtained> obtain(std::span<const Candidate> candidates, const Accept& accept = {},
                          std::optional<int> driver_major = std::nullopt);

  /// Whether obtain() would find one of the candidates in the cache. Compiles nothing.
  bool cached(std::span<const Candidate> candidates,
              std::optional<int> driver_major = std::nullopt);

  /// The toolchain found on this machine; the same answer at every call.
  const Result<Toolchain>& toolchain();
  /// The loaded NVRTC; the same answer at every call.
  const Result<Nvrtc>& compiler();

  std::uint64_t compiles() const noexcept { return compiles_.load(std::memory_order_relaxed); }

 private:
  /// One call of obtain().
  struct Request {
    std::span<const Candidate> candidates;
    const Accept& accept;
    std::optional<int> driver_major;
    bool asked_before = false;  ///< The store has counted the miss.
    std::string refusals{};     ///< What the driver refused so far.
  };

  std::shared_ptr<const cache::Entry> kept(const cache::SourceKey& source);
  /// A kernel that need not be compiled, or why `accept` failed for it.
  std::optional<Result<Obtained>> find(Request& request);
  std::optional<Result<Obtained>> find_kept(const Request& request);
  /// The first stored entry that `accept` takes, of the toolchain `key` or, when null, of any.
  /// What the driver refuses is rejected. Nothing when the store has none.
  std::optional<Result<Obtained>> find_stored(Request& request, const cache::ToolchainKey* key);
  /// After a miss. Looks again once nobody else compiles the kernel.
  Result<Obtained> find_or_compile(Request& request);
  Result<Obtained> compile(const Nvrtc& nvrtc, const Request& request, std::size_t index);
  void store(Obtained& obtained);

  cache::Store& store_;
  const ToolchainInputs inputs_;
  std::once_flag found_once_;
  std::once_flag loaded_once_;
  std::optional<Result<Toolchain>> toolchain_;
  cache::ToolchainKey toolchain_key_;  // Of toolchain_, when there is one.
  std::optional<Result<Nvrtc>> compiler_;
  std::atomic<std::uint64_t> compiles_{0};

  // Entries that no directory took, so that each is still compiled once.
  std::mutex kept_mutex_;
  std::map<cache::Digest, std::shared_ptr<const cache::Entry>> kept_;
};

/// What Engine::compile and Engine::prebuild report.
KernelInfo kernel_info(const Candidate& candidate, const Obtained& obtained, double seconds);

}  // namespace kiln::runtime
