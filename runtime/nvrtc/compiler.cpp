#include "runtime/nvrtc/compiler.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/nvrtc/elf.hpp"
#include "runtime/nvrtc/library.hpp"
#include "runtime/nvrtc/ptx.hpp"
#include "runtime/nvrtc/ptxas_log.hpp"
#include "runtime/nvrtc/source_key.hpp"
#include "trait_registry/sources.hpp"
#include "trait_registry/target.hpp"

namespace kiln::runtime {
namespace {

std::vector<const char*> c_strings(const std::vector<std::string>& strings) {
  std::vector<const char*> pointers;
  pointers.reserve(strings.size());
  for (const std::string& text : strings) {
    pointers.push_back(text.c_str());
  }
  return pointers;
}

// One nvrtcProgram. Every call that fails leaves its name and code in failed_call().
class Program {
 public:
  explicit Program(const NvrtcApi& api) noexcept : api_(api) {}
  ~Program() {
    if (program_ != nullptr) {
      api_.destroy_program(&program_);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  bool create(std::span<const registry::CompileUnit> units) {
    const registry::CompileUnit& unit = units.front();
    std::vector<const char*> names;
    std::vector<const char*> texts;
    for (const SourceFile& header : unit.headers) {
      names.push_back(header.name.c_str());
      texts.push_back(header.text.c_str());
    }
    return ok("nvrtcCreateProgram",
              api_.create_program(&program_, unit.main.text.c_str(), unit.main.name.c_str(),
                                  static_cast<int>(names.size()), texts.data(), names.data())) &&
           std::all_of(units.begin(), units.end(), [this](const registry::CompileUnit& each) {
             return ok("nvrtcAddNameExpression",
                       api_.add_name_expression(program_, each.name_expression.c_str()));
           });
  }
  bool compile(const std::vector<std::string>& options) {
    const std::vector<const char*> pointers = c_strings(options);
    return ok("nvrtcCompileProgram",
              api_.compile_program(program_, static_cast<int>(pointers.size()), pointers.data()));
  }
  bool lowered_name(const std::string& expression, std::string& name) {
    const char* lowered = nullptr;
    if (!ok("nvrtcGetLoweredName", api_.lowered_name(program_, expression.c_str(), &lowered))) {
      return false;
    }
    name = lowered;
    return true;
  }
  bool cubin(std::string& out) { return fetch("nvrtcGetCUBIN", api_.cubin_size, api_.cubin, out); }
  bool ptx(std::string& out) {
    return fetch("nvrtcGetPTX", api_.ptx_size, api_.ptx, out) && drop_terminator(out);
  }
  // The log as far as there is one; its absence is no reason to fail.
  std::string log() {
    std::string text;
    if (program_ != nullptr) {
      const std::string failed_before = failed_call_;
      fetch("nvrtcGetProgramLog", api_.log_size, api_.log, text);
      failed_call_ = failed_before;
    }
    drop_terminator(text);
    return text;
  }
  const std::string& failed_call() const noexcept { return failed_call_; }

 private:
  bool ok(const char* call, nvrtcResult result) {
    if (result != NVRTC_SUCCESS) {
      failed_call_ =
          fmt::format("{} gave {} ({})", call, api_.error_string(result), static_cast<int>(result));
    }
    return result == NVRTC_SUCCESS;
  }
  template <class Size, class Get>
  bool fetch(const char* call, Size size_of, Get get, std::string& out) {
    std::size_t size = 0;
    if (!ok(call, size_of(program_, &size))) {
      return false;
    }
    out.resize(size);
    return ok(call, get(program_, out.data()));
  }
  static bool drop_terminator(std::string& text) {
    text.resize(std::min(text.find('\0'), text.size()));
    return true;
  }

  const NvrtcApi& api_;
  nvrtcProgram program_ = nullptr;
  std::string failed_call_;
};

// Everything a report of a failed compile needs.
tl::unexpected<Failure> compile_failure(std::span<const registry::CompileUnit> units,
                                        const Toolchain& toolchain, std::string_view reason,
                                        std::string_view log) {
  const registry::CompileUnit& unit = units.front();
  const std::string others =
      units.size() > 1 ? fmt::format(" and {} more in one program", units.size() - 1) : "";
  return fail(ErrorCode::kCompileFailed,
              fmt::format("compiling {}{} failed: {}\n"
                          "  NVRTC {}: {}, with {}\n"
                          "  source: {}, instantiation: {}\n"
                          "  options: {}\n"
                          "  log:\n{}",
                          unit.label, others, reason, toolchain.version(), toolchain.nvrtc_path,
                          toolchain.builtins_path, unit.main.name, unit.name_expression,
                          fmt::join(compile_options(unit), " "), log.empty() ? "(empty)" : log));
}

// The one include that NVRTC reads from disk although it searches no folder: an absolute path. What
// it holds, or whether it is there, would be in no key. Quoted ones that are not in memory never
// get here.
std::string include_from_disk(const registry::CompileUnit& unit) {
  const auto find_in = [&unit](const SourceFile& file) -> std::string {
    for (const registry::IncludeDirective& include : registry::scan_includes(file.text)) {
      const bool in_memory =
          std::any_of(unit.headers.begin(), unit.headers.end(),
                      [&include](const SourceFile& header) { return header.name == include.name; });
      if (include.name.starts_with('/') && !in_memory) {
        return fmt::format(
            "{}:{} {} {} from disk; pass it as one of the op's sources (see headers_from)",
            file.name, include.line, include.probe ? "asks for" : "includes", include.name);
      }
    }
    return {};
  };
  std::string found = find_in(unit.main);
  for (auto header = unit.headers.begin(); found.empty() && header != unit.headers.end();
       ++header) {
    found = find_in(*header);
  }
  return found;
}

bool lower_names(Program& program, std::span<const registry::CompileUnit> units,
                 std::vector<CompiledKernel>& kernels) {
  return std::all_of(units.begin(), units.end(), [&](const registry::CompileUnit& unit) {
    return program.lowered_name(unit.name_expression, kernels.emplace_back().symbol);
  });
}

std::string first_release(const Target& target) {
  for (const registry::KnownTarget& known : registry::known_targets()) {
    if (known.target == target) {
      return fmt::format("{} needs NVRTC {}.{} or newer", to_string(target), known.nvrtc_major,
                         known.nvrtc_minor);
    }
  }
  return fmt::format("Kiln knows no {}", to_string(target));
}

}  // namespace

const Toolchain& Nvrtc::toolchain() const noexcept {
  return library_->toolchain;
}

// NVRTC itself lists base architectures only; which suffixes exist is the table's knowledge.
std::vector<Target> Nvrtc::targets() const {
  std::vector<Target> targets;
  for (const registry::KnownTarget& known : registry::known_targets()) {
    const auto& archs = library_->architectures;
    if (registry::nvrtc_knows(known.target, toolchain().major, toolchain().minor) &&
        std::find(archs.begin(), archs.end(), known.target.compute_capability()) != archs.end()) {
      targets.push_back(known.target);
    }
  }
  return targets;
}

Status Compiler::check_target(const Target& target) const {
  const std::vector<Target> known = targets();
  if (std::find(known.begin(), known.end(), target) != known.end()) {
    return {};
  }
  std::vector<std::string> names;
  for (const Target& each : known) {
    names.push_back(to_string(each));
  }
  return fail(ErrorCode::kUnsupportedTarget,
              fmt::format("NVRTC {} ({}) cannot compile for {}: it can for {}; {}",
                          toolchain().version(), toolchain().nvrtc_path, to_string(target),
                          fmt::join(names, ", "), first_release(target)));
}

bool same_program(const registry::CompileUnit& a, const registry::CompileUnit& b) {
  return a.target == b.target && a.main == b.main && a.headers == b.headers &&
         a.options == b.options;
}

Status Compiler::check_program(std::span<const registry::CompileUnit> units) const {
  if (units.empty() || !std::all_of(units.begin(), units.end(), [&](const auto& unit) {
        return same_program(units.front(), unit);
      })) {
    return fail(ErrorCode::kInternal,
                "a program was asked for whose units differ in more than their names");
  }
  return check_target(units.front().target);
}

Result<CompiledProgram> Nvrtc::compile(std::span<const registry::CompileUnit> units) const {
  if (const Status usable = check_program(units); !usable) {
    return tl::unexpected(usable.error());
  }
  if (const std::string include = include_from_disk(units.front()); !include.empty()) {
    return compile_failure(units, toolchain(), include, "");
  }
  Program program(library_->api);
  CompiledProgram result;
  const bool done = program.create(units) && program.compile(compile_options(units.front())) &&
                    lower_names(program, units, result.kernels) && program.cubin(result.cubin) &&
                    program.ptx(result.ptx);
  result.log = program.log();
  if (!done) {
    return compile_failure(units, toolchain(), program.failed_call(), result.log);
  }
  for (CompiledKernel& kernel : result.kernels) {
    if (const Status usable = check_cubin(result.cubin, kernel.symbol, units.front().target);
        !usable) {
      return compile_failure(units, toolchain(), usable.error().message, result.log);
    }
    // A log whose form is new is no reason to refuse a good cubin: its numbers are then 0.
    kernel.resources = resources_from_log(result.log, kernel.symbol).value_or(cache::Resources{});
    kernel.pdl_wait = entry_waits(result.ptx, kernel.symbol);
  }
  return result;
}

}  // namespace kiln::runtime
