#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cache/entry.hpp"
#include "runtime/nvrtc/toolchain.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {

/// One kernel of a compiled program.
struct CompiledKernel {
  std::string symbol;  ///< The lowered (mangled) name of the unit's name expression.
  cache::Resources resources;
  bool pdl_wait = false;  ///< The kernel's PTX entry holds griddepcontrol.wait.
};

/// A checked compile result.
struct CompiledProgram {
  std::string cubin;  ///< A CUDA ELF for the units' target that holds every symbol.
  std::vector<CompiledKernel> kernels;  ///< In the order of the units.
  std::string ptx;  ///< The PTX that the same program returned. Empty from a compile worker.
  std::string log;  ///< NVRTC's log, warnings included.
};

/// Whether two units can be compiled as one program: all but their name expressions and labels is
/// equal.
bool same_program(const registry::CompileUnit& a, const registry::CompileUnit& b);

/// Something that compiles. All members may be called from any thread.
class Compiler {
 public:
  Compiler() = default;
  Compiler(const Compiler&) = default;
  Compiler(Compiler&&) = default;
  Compiler& operator=(const Compiler&) = default;
  Compiler& operator=(Compiler&&) = default;
  virtual ~Compiler() = default;

  virtual const Toolchain& toolchain() const noexcept = 0;

  /// Every target that it compiles for, such as sm_90 and sm_90a.
  virtual std::vector<Target> targets() const = 0;

  /// Compiles units of which any two are same_program() as one program with a name expression for
  /// each. An error is kUnsupportedTarget (before anything is compiled), kCompileFailed with the
  /// whole log, NVRTC's version and path, the options, and the first unit's label, or
  /// kCompilerLost.
  virtual Result<CompiledProgram> compile(std::span<const registry::CompileUnit> units) const = 0;

  /// Success, or kUnsupportedTarget naming what this compiler can do.
  Status check_target(const Target& target) const;

 protected:
  /// What compile() asks of its units: that there are some, of one program, and the target.
  Status check_program(std::span<const registry::CompileUnit> units) const;
};

/// NVRTC, loaded into this process. Never unloaded, since NVRTC keeps threads and process-wide
/// state of its own. Copies share the loaded library.
class Nvrtc final : public Compiler {
 public:
  /// Loads builtins and libnvrtc, in that order, and checks that they are the set that `toolchain`
  /// names. Errors are kCompilerUnavailable and name the paths.
  static Result<Nvrtc> load(const Toolchain& toolchain);

  const Toolchain& toolchain() const noexcept override;
  std::vector<Target> targets() const override;
  Result<CompiledProgram> compile(std::span<const registry::CompileUnit> units) const override;

 private:
  struct Library;
  explicit Nvrtc(std::shared_ptr<const Library> library) noexcept : library_(std::move(library)) {}
  std::shared_ptr<const Library> library_;
};

}  // namespace kiln::runtime
