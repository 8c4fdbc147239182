#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "base/logger.hpp"
#include "base/result.hpp"
#include "cache/entry.hpp"
#include "cache/store.hpp"
#include "runtime/compiler_source.hpp"
#include "runtime/flight_table.hpp"
#include "runtime/load_failure.hpp"
#include "runtime/trace.hpp"
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
  std::string store_problem;  ///< Why not, when it is not stored.
};

/// Tries to use an entry, for example by loading it into the driver.
using Accept = std::function<tl::expected<void, LoadFailure>(const cache::Entry&)>;

/// What a provider may do about a kernel that is in no cache.
struct ProviderOptions {
  CompilerOptions compiler;
  JitPolicy policy = JitPolicy::kAllow;
};

/// Makes kernels appear: from the cache, else by compiling them into it. Finds NVRTC at the first
/// lookup and starts it at the first compile; under JitPolicy::kForbid it does neither. All members
/// may be called from any thread. A call that misses waits while another thread compiles the same
/// kernel, or another process into the same root (or one in 256 others: they share locks), for no
/// longer than StoreOptions::lock_times says; a hit waits for nobody.
class KernelProvider {
 public:
  KernelProvider(cache::Store& store, ProviderOptions options, const Logger& logger, Trace& trace);

  /// The first candidate in the cache that `accept` takes, else the first that this NVRTC knows,
  /// compiled. An entry that the driver refuses is rejected and the next one tried; a fresh compile
  /// that it refuses is the error, and is not stored. A kernel that cannot be compiled is compiled
  /// once, and the error given again until forget_failures(). `accept` may be empty. `driver_major`
  /// keeps entries of later CUDA majors out when any toolchain's will do. `asked_before`: a miss
  /// was counted already.
  Result<Obtained> obtain(std::span<const Candidate> candidates, const Accept& accept = {},
                          std::optional<int> driver_major = std::nullopt,
                          bool asked_before = false);

  /// As obtain() for each of several kernels of which any two are same_program(). When none of them
  /// is there yet they are compiled as one program, which takes about half the time, and share one
  /// image; one that another process compiles alone meanwhile may then be compiled twice.
  std::vector<Result<Obtained>> obtain_group(std::span<const Candidate> members);

  /// As obtain() where that compiles nothing, else nothing.
  std::optional<Result<Obtained>> find_cached(std::span<const Candidate> candidates,
                                              const Accept& accept = {},
                                              std::optional<int> driver_major = std::nullopt,
                                              bool asked_before = false);
  /// Whether find_cached() finds something.
  bool cached(std::span<const Candidate> candidates,
              std::optional<int> driver_major = std::nullopt);

  /// Has kernels that could not be compiled tried again.
  void forget_failures() { flights_.forget_failures(); }
  /// See Store::stop_waiting.
  void stop_waiting(bool stop) noexcept { store_.stop_waiting(stop); }

  CompilerSource& source() noexcept { return source_; }
  JitPolicy policy() const noexcept { return options_.policy; }

  /// Instantiations given to the compiler.
  std::uint64_t compiles() const noexcept { return compiles_.load(std::memory_order_relaxed); }

 private:
  /// One call of obtain().
  struct Request {
    std::span<const Candidate> candidates;
    const Accept* accept = nullptr;  ///< May be null.
    std::optional<int> driver_major{};
    bool asked_before = false;  ///< The store has counted the miss.
    std::string refusals{};     ///< What the driver refused so far.
  };

  bool may_compile() const noexcept { return options_.policy != JitPolicy::kForbid; }
  /// A kernel that need not be compiled, or why `accept` failed for it.
  std::optional<Result<Obtained>> find(Request& request);
  std::optional<Result<Obtained>> find_kept(const Request& request);
  /// The first stored entry that `accept` takes, of the toolchain `key` or, when null, of any.
  /// What the driver refuses is rejected. Nothing when the store has none.
  std::optional<Result<Obtained>> find_stored(Request& request, const cache::ToolchainKey* key);
  /// The first candidate that the compiler can make, or why there is none.
  Result<std::size_t> compilable(const Request& request);
  Failure forbidden(const Request& request) const;
  /// After a miss: looks again once nobody else compiles the kernel, then compiles it.
  Result<Obtained> lead(FlightTable::Flight flight, Request& request, std::size_t index);
  Result<Obtained> compile(FlightTable::Flight flight, const Request& request, std::size_t index);
  /// Nothing when they are better obtained one by one: somebody is at one of them, has made it, or
  /// the program does not compile.
  std::optional<std::vector<Result<Obtained>>> compile_group(std::span<const Candidate> members);
  Result<CompiledProgram> run_compiler(std::span<const registry::CompileUnit> units);
  /// Publishes a fresh entry and lands its flight.
  Obtained store(FlightTable::Flight flight, std::shared_ptr<const cache::Entry> entry,
                 std::size_t index);

  cache::Store& store_;
  const ProviderOptions options_;
  const Logger logger_;
  Trace& trace_;
  CompilerSource source_;
  FlightTable flights_;
  std::atomic<std::uint64_t> compiles_{0};
};

/// What Engine::compile and Engine::prebuild report.
KernelInfo kernel_info(const Candidate& candidate, const Obtained& obtained, double seconds);

}  // namespace kiln::runtime
