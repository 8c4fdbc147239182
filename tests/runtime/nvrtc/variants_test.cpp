#include <set>
#include <string>
#include <vector>

#include "runtime/nvrtc/compiler.hpp"
#include "runtime/nvrtc/source_key.hpp"
#include "tests/runtime/nvrtc/early_accesses.hpp"
#include "tests/runtime/nvrtc/toolchains.hpp"
#include "tests/runtime/nvrtc/units.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

// The PTX of one kernel, up to the next one.
std::string body_of(const std::string& ptx, const std::string& symbol) {
  const std::size_t begin = ptx.find(".entry " + symbol + "(");
  REQUIRE(begin != std::string::npos);
  return ptx.substr(begin, ptx.find(".entry ", begin + 1) - begin);
}

test::PointerParams pointer_params(const registry::BoundOp& bound, std::size_t kernel) {
  test::PointerParams pointers;
  const std::vector<registry::BoundParam>& params = bound.params[kernel];
  for (std::size_t i = 0; i < params.size(); ++i) {
    const bool data = params[i].source == Param::Source::kData;
    if (data && bound.op.args[static_cast<std::size_t>(params[i].index)].constant) {
      pointers.constant.insert(static_cast<int>(i));
    } else if (data || params[i].source == Param::Source::kWorkspace) {
      pointers.other.insert(static_cast<int>(i));
    }
  }
  return pointers;
}

// Adds to `early` how often the kernel touches global memory before its wait.
void check_kernel(const registry::BoundOp& bound, const Variant& variant,
                  const CompiledKernel& kernel, const std::string& ptx, std::size_t& early) {
  CAPTURE(to_string(variant));
  const bool pdl = variant.traits[kPdlTrait] != 0;
  CHECK(kernel.pdl_wait == pdl);
  CHECK((body_of(ptx, kernel.symbol).find("griddepcontrol") != std::string::npos) == pdl);
  if (pdl) {
    CHECK(test::early_accesses(ptx, kernel.symbol, pointer_params(bound, variant.kernel)) ==
          std::vector<std::string>());
    early += test::early_accesses(ptx, kernel.symbol, {}).size();
  }
  CHECK(kernel.resources.registers > 0);
  CHECK(kernel.resources.spill_store_bytes == 0);
  CHECK(kernel.resources.spill_load_bytes == 0);
}

// In groups, as a prebuild compiles them.
std::size_t compile_variants(const Nvrtc& nvrtc, const registry::BoundOp& bound,
                             const Target& target, std::size_t& early) {
  std::set<std::string> keys;
  std::set<std::string> symbols;
  std::size_t count = 0;
  for (const std::vector<Variant>& group : registry::compile_groups(bound, target)) {
    std::vector<registry::CompileUnit> units;
    for (const Variant& variant : group) {
      units.push_back(value_or_throw(registry::compile_unit(variant)));
      keys.insert(source_key(units.back()).digest.hex());
    }
    const auto compiled = nvrtc.compile(units);
    if (!compiled) {
      FAIL_CHECK(compiled.error().message);
      continue;
    }
    CHECK(compiled->log.find("warning") == std::string::npos);
    REQUIRE(compiled->kernels.size() == group.size());
    for (std::size_t i = 0; i < group.size(); ++i) {
      check_kernel(bound, group[i], compiled->kernels[i], compiled->ptx, early);
      symbols.insert(compiled->kernels[i].symbol);
    }
    count += group.size();
  }
  CHECK(keys.size() == count);
  CHECK(symbols.size() == count);
  return count;
}

// Compiles every variant of every built-in op with every NVRTC here that knows the target.
void compile_everything_for(const char* target_name) {
  const Target target = parse_target(target_name);
  const registry::Registry registry;
  for (const Toolchain& toolchain : test::all_toolchains()) {
    CAPTURE(toolchain.nvrtc_path, target_name);
    const Nvrtc nvrtc = test::load(toolchain);
    const bool known = registry::nvrtc_knows(target, toolchain.major, toolchain.minor);
    CHECK(bool(nvrtc.check_target(target)) == known);
    std::size_t early = 0;
    for (const registry::BoundOp* bound : registry.all()) {
      CAPTURE(bound->op.name);
      if (known) {
        CHECK(compile_variants(nvrtc, *bound, target, early) > 0);
      }
    }
    CHECK((early > 0) == known);  // Weights are; a scan that sees none of that sees nothing.
  }
}

TEST_CASE("Built-in ops are refused for sm_80, saying what they need", "[sm_80]") {
  const registry::Registry registry;
  REQUIRE_FALSE(registry.all().empty());
  for (const registry::BoundOp* bound : registry.all()) {
    CAPTURE(bound->op.name);
    CHECK(registry::enumerate(*bound, parse_target("sm_80")).empty());
    const auto unit =
        registry::compile_unit({&bound->op, 0, Traits(bound->op.traits), parse_target("sm_80")});
    REQUIRE_FALSE(unit);
    CHECK(unit.error().code == ErrorCode::kUnsupportedTarget);
    CHECK(unit.error().message.find("9.0") != std::string::npos);
    CHECK(unit.error().message.find("sm_80") != std::string::npos);
    CHECK(unit.error().message.find(bound->op.name) != std::string::npos);
  }
}

TEST_CASE("Every built-in variant compiles for sm_90", "[sm_90]") {
  compile_everything_for("sm_90");
}

TEST_CASE(
    "Every built-in variant compiles for sm_90a, and touches nothing but constants before its wait "
    "(field report 132)",
    "[sm_90a]") {
  compile_everything_for("sm_90a");
}

TEST_CASE("Every built-in variant compiles for sm_100", "[sm_100]") {
  compile_everything_for("sm_100");
}

TEST_CASE("Every built-in variant compiles for sm_100a", "[sm_100a]") {
  compile_everything_for("sm_100a");
}

TEST_CASE("Every built-in variant compiles for sm_100f", "[sm_100f]") {
  compile_everything_for("sm_100f");
}

TEST_CASE("Every built-in variant compiles for sm_103a", "[sm_103a]") {
  compile_everything_for("sm_103a");
}

TEST_CASE("Every built-in variant compiles for sm_120", "[sm_120]") {
  compile_everything_for("sm_120");
}

TEST_CASE("Every built-in variant compiles for sm_120a", "[sm_120a]") {
  compile_everything_for("sm_120a");
}

}  // namespace
}  // namespace kiln::runtime
