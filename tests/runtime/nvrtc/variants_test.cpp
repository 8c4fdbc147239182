#include <set>
#include <string>

#include "runtime/nvrtc/compiler.hpp"
#include "runtime/nvrtc/source_key.hpp"
#include "tests/runtime/nvrtc/toolchains.hpp"
#include "tests/runtime/nvrtc/units.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

void check_compiled(const Variant& variant, const test::Compiled& compiled) {
  const bool pdl = variant.traits[kPdlTrait] != 0;
  CHECK(compiled.pdl_wait == pdl);
  CHECK((compiled.ptx.find("griddepcontrol") != std::string::npos) == pdl);
  CHECK(compiled.resources.registers > 0);
  CHECK(compiled.resources.spill_store_bytes == 0);
  CHECK(compiled.resources.spill_load_bytes == 0);
  CHECK(compiled.log.find("warning") == std::string::npos);
}

std::size_t compile_variants(const Nvrtc& nvrtc, const registry::BoundOp& bound,
                             const Target& target) {
  const auto variants = registry::enumerate(bound, target);
  std::set<std::string> keys;
  std::set<std::string> symbols;
  for (const Variant& variant : variants) {
    CAPTURE(to_string(variant));
    const auto unit = registry::compile_unit(variant);
    REQUIRE(unit);
    const auto compiled = test::compile_one(nvrtc, *unit);
    if (!compiled) {
      FAIL_CHECK(compiled.error().message);
      continue;
    }
    check_compiled(variant, *compiled);
    keys.insert(source_key(*unit).digest.hex());
    symbols.insert(compiled->symbol);
  }
  CHECK(keys.size() == variants.size());
  CHECK(symbols.size() == variants.size());
  return variants.size();
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
    for (const registry::BoundOp* bound : registry.all()) {
      CAPTURE(bound->op.name);
      if (known) {
        CHECK(compile_variants(nvrtc, *bound, target) > 0);
      }
    }
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

TEST_CASE("Every built-in variant compiles for sm_90a", "[sm_90a]") {
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
