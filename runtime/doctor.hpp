#pragma once

#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "cache/store.hpp"

namespace kiln::runtime {

/// What was found where on this machine, and what each op can do here: the data behind
/// `kiln doctor`.
struct DoctorReport {
  struct Device {
    int ordinal = 0;
    std::string name;
    ComputeCapability capability;
    /// The first target of the device's list that can be compiled here, else the list's first.
    std::string target;
  };
  struct Driver {
    bool found = false;
    std::string problem;  ///< Why not, when not found.
    std::string path;
    std::string version;          ///< "13.0".
    std::string minimum_version;  ///< The oldest that Kiln works with.
    std::vector<Device> devices;
  };
  /// What happens to a kernel that is in no cache.
  struct Compiling {
    JitPolicy policy = JitPolicy::kAllow;
    bool in_process = false;  ///< As asked for. Otherwise, and where compiling is not forbidden:
    std::string worker;       ///< The compile worker's executable. Empty: compiles run in-process,
    std::string worker_problem;  ///< and this is why.
  };
  /// Where compiling is forbidden it is not sought, and all is empty.
  struct Nvrtc {
    bool usable = false;
    std::string problem;  ///< Why not, when not usable.
    std::string path;
    std::string builtins_path;
    std::string version;
    std::string id;  ///< Build ids, which are part of cache keys.
    std::string builtins_id;
    std::string origin;                    ///< Which setting or search step found it.
    std::vector<std::string> passed_over;  ///< Sets met before it that could not be used.
  };
  struct Cache {
    std::string root;
    std::string why;  ///< Which setting chose it.
    bool writable = false;
    std::string description;  ///< All of it in one line.
    std::string fallback;     ///< Where new entries go instead. Empty: they do not.
    std::string trust;        ///< "trusted", "trusted, with a warning" or "refused": the root.
    std::string trust_reason;
    cache::Limits limits;
    std::vector<cache::LayerState> layers;  ///< In the order in which they are asked.
  };
  enum class Ability { kLoadable, kCompilable, kNeither };
  /// One op on one target of this machine: of each kind of device; without a device all are of one,
  /// that which the cache holds most of, or else the newest that can be compiled here, or else the
  /// newest.
  struct OpRow {
    std::string op;
    std::string target;
    std::size_t variants = 0;  ///< Kernels that the op has for the target.
    std::size_t cached = 0;    ///< Of those, found in the cache.
    Ability ability = Ability::kNeither;
    std::string reason;  ///< In words, whatever the ability.
  };

  std::string kiln_version;
  Driver driver;
  Compiling compiling;
  Nvrtc nvrtc;
  Cache cache;
  std::vector<OpRow> ops;
  bool assumes_cached = false;  ///< There is no device, and the ops' target is in the cache.

  bool may_compile() const noexcept { return compiling.policy != JitPolicy::kForbid; }
  /// Every op can be loaded or compiled on every device here.
  bool ok() const noexcept;
};

/// As KILN_JIT spells it.
const char* policy_name(JitPolicy policy) noexcept;

/// "loadable", "compilable" or "neither".
const char* ability_name(DoctorReport::Ability ability) noexcept;

/// Looks; changes nothing.
DoctorReport examine(Engine& engine);

}  // namespace kiln::runtime
