#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cache/entry.hpp"
#include "runtime/nvrtc/toolchain.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {

/// A checked compile result.
struct Compiled {
  std::string cubin;   ///< A CUDA ELF for the unit's target that holds `symbol`.
  std::string symbol;  ///< The lowered (mangled) name of the unit's name expression.
  std::string ptx;     ///< The PTX that the same program returned.
  cache::Resources resources;
  bool pdl_wait = false;  ///< The kernel's PTX entry holds griddepcontrol.wait.
  std::string log;        ///< NVRTC's log, warnings included.
};

/// A loaded NVRTC. Never unloaded, since NVRTC keeps threads and process-wide state of its own.
/// Copies share the loaded library. All members may be called from any thread.
class Nvrtc {
 public:
  /// Loads builtins and libnvrtc, in that order, and checks that they are the set that `toolchain`
  /// names. Errors are kCompilerUnavailable and name the paths.
  static Result<Nvrtc> load(const Toolchain& toolchain);

  const Toolchain& toolchain() const noexcept;

  /// Every target that this NVRTC compiles for, such as sm_90 and sm_90a.
  std::vector<Target> targets() const;

  /// Success, or kUnsupportedTarget naming what this NVRTC can do.
  Status check_target(const Target& target) const;

  /// Compiles one unit. An error is kUnsupportedTarget (before anything is compiled), or
  /// kCompileFailed with the whole log, NVRTC's version and path, the options, and the unit's
  /// label, which names the op and its trait values.
  Result<Compiled> compile(const registry::CompileUnit& unit) const;

 private:
  struct Library;
  explicit Nvrtc(std::shared_ptr<const Library> library) noexcept : library_(std::move(library)) {}
  std::shared_ptr<const Library> library_;
};

}  // namespace kiln::runtime
