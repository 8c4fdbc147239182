#include "trait_registry/variant.hpp"

#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/sample_op.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/target.hpp"

namespace kiln::registry {
namespace {

using test::sample_op;

std::vector<std::string> labels(const std::vector<Variant>& variants) {
  std::vector<std::string> result;
  for (const Variant& variant : variants) {
    result.push_back(to_string(variant));
  }
  return result;
}

Problem problem_of(const BoundOp& bound, const std::string& target, bool pdl, std::int64_t m) {
  Problem problem(bound.names);
  problem.set_target(parse_target(target));
  problem.set_pdl(pdl);
  problem.set_dim(0, m);
  return problem;
}

TEST_CASE("Every combination of trait values is enumerated once, in the order of the domains") {
  Registry registry;
  const BoundOp& bound = **registry.add(sample_op());
  const std::vector<std::string> all = labels(enumerate(bound, parse_target("sm_90a")));
  CHECK(all.size() == 3 * 2 * 2);
  CHECK(std::set(all.begin(), all.end()).size() == all.size());
  CHECK(all.front() == "sample SPLIT=1 ORDER=ns::kPeer PDL=false sm_90a");
  CHECK(all[1] == "sample SPLIT=1 ORDER=ns::kPeer PDL=true sm_90a");
  CHECK(all.back() == "sample SPLIT=3 ORDER=ns::kFast PDL=true sm_90a");
}

TEST_CASE("Combinations that do not exist are left out, for the target asked about") {
  Registry registry;
  Op op = sample_op();
  op.exists = [](const Traits& traits, const Target& target) {
    return traits["ORDER"] == 0 || (traits["SPLIT"] == 1 && target.major >= 10);
  };
  const BoundOp& bound = **registry.add(std::move(op));
  CHECK(enumerate(bound, parse_target("sm_90")).size() == 3 * 2);
  CHECK(enumerate(bound, parse_target("sm_100a")).size() == 3 * 2 + 2);
}

TEST_CASE("A target below the op's minimum has no variant and a reason") {
  Registry registry;
  const BoundOp& bound = **registry.find("n128k512_gemm_bf16");
  const Target target = parse_target("sm_80");
  CHECK(enumerate(bound, target).empty());
  const Status status = serves(bound.op, target);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == ErrorCode::kUnsupportedTarget);
  CHECK(status.error().message ==
        "op \"n128k512_gemm_bf16\" needs compute capability 9.0 or newer, and sm_80 is 8.0");
  for (const std::string text :
       {"sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120", "sm_120a"}) {
    CAPTURE(text);
    CHECK(serves(bound.op, parse_target(text)));
    CHECK_FALSE(enumerate(bound, parse_target(text)).empty());
  }
}

TEST_CASE("The kernels of an op follow each other, and one that ignores a trait is not repeated") {
  Registry registry;
  Op op = sample_op();
  KernelSpec second = op.kernels[0];
  second.name = "finish";
  second.instantiation = "ns::finish<{PDL}>";
  op.kernels.push_back(second);
  const BoundOp& bound = **registry.add(std::move(op));
  const std::vector<std::string> all = labels(enumerate(bound, parse_target("sm_90")));
  CHECK(all.size() == 3 * 2 * 2 + 2);
  CHECK(all[0] == "sample/main SPLIT=1 ORDER=ns::kPeer PDL=false sm_90");
  CHECK(all[1] == "sample/finish PDL=false sm_90");
  CHECK(std::count(all.begin(), all.end(), "sample/finish PDL=true sm_90") == 1);
}

TEST_CASE(
    "PDL asked for below 9.0 is silently off, and no such variant exists (field report 137)") {
  Registry registry;
  Op op = sample_op();
  op.min_compute_capability = 80;
  const BoundOp& bound = **registry.add(std::move(op));
  CHECK(choose_traits(bound, problem_of(bound, "sm_89", true, 1))["PDL"] == 0);
  CHECK(choose_traits(bound, problem_of(bound, "sm_90", true, 1))["PDL"] == 1);
  CHECK(choose_traits(bound, problem_of(bound, "sm_90", false, 1))["PDL"] == 0);
  for (const Variant& variant : enumerate(bound, parse_target("sm_89"))) {
    CHECK(variant.traits["PDL"] == 0);
  }
  CHECK(enumerate(bound, parse_target("sm_89")).size() == 3 * 2);
  Traits with_pdl(bound.op.traits);
  with_pdl.set("PDL", 1);
  CHECK_FALSE(compile_unit({&bound.op, 0, with_pdl, parse_target("sm_89")}));
}

TEST_CASE("The shapes of a call choose the trait values, and the op cannot choose PDL") {
  Registry registry;
  Op op = sample_op();
  op.choose = [](const Problem& problem, Traits& traits) {
    traits.set("SPLIT", problem.dim("m")).set("PDL", 1);
  };
  const BoundOp& bound = **registry.add(std::move(op));
  const Traits traits = choose_traits(bound, problem_of(bound, "sm_90", false, 2));
  CHECK(traits["SPLIT"] == 2);
  CHECK(traits["ORDER"] == 0);
  CHECK(traits["PDL"] == 0);
}

TEST_CASE("An op without a PDL trait never has it on") {
  Registry registry;
  Op op = sample_op();
  op.traits.pop_back();
  op.kernels[0].instantiation = "ns::sample<{SPLIT}, {ORDER}>";
  const BoundOp& bound = **registry.add(std::move(op));
  CHECK_FALSE(bound.has_pdl_trait);
  CHECK(choose_traits(bound, problem_of(bound, "sm_90", true, 2))["PDL"] == 0);
  CHECK(enumerate(bound, parse_target("sm_90")).size() == 3 * 2);
}

TEST_CASE("A compile unit holds the instantiation, the sources it includes and the op's options") {
  Registry registry;
  Op op = sample_op();
  op.options = {"-DA", "-DB"};
  op.sources.push_back({"not_included.cuh", "x"});
  const BoundOp& bound = **registry.add(std::move(op));
  Traits traits(bound.op.traits);
  traits.set("SPLIT", 2).set("ORDER", 1).set("PDL", 1);
  const Result<CompileUnit> unit = compile_unit({&bound.op, 0, traits, parse_target("sm_103a")});
  REQUIRE(unit);
  CHECK(unit->label == "sample SPLIT=2 ORDER=ns::kFast PDL=true sm_103a");
  CHECK(unit->name_expression == "ns::sample<2, ns::kFast, true>");
  CHECK(to_string(unit->target) == "sm_103a");
  CHECK(unit->main.name == "sample.cu");
  CHECK(unit->options == std::vector<std::string>{"-DA", "-DB"});
  REQUIRE(unit->headers.size() == 2);
  CHECK(unit->headers[0].name == "own.cuh");
  CHECK(unit->headers[0].text == "#pragma once\n");
  CHECK(unit->headers[1].name == "prelude/types.cuh");
}

TEST_CASE("A variant that names no kernel is refused, and has a name all the same") {
  Registry registry;
  Variant variant;
  CHECK(compile_unit(variant).error().code == ErrorCode::kInvalidArgument);
  CHECK(to_string(variant) == "no kernel");
  variant = enumerate(**registry.add(sample_op()), parse_target("sm_90a")).front();
  variant.kernel = 7;
  CHECK(compile_unit(variant).error().code == ErrorCode::kInvalidArgument);
  CHECK(to_string(variant) == "no kernel");
}

TEST_CASE("Every enumerated variant of every built-in op for every target is a compile unit") {
  Registry registry;
  for (const BoundOp* bound : registry.all()) {
    for (const KnownTarget& known : known_targets()) {
      std::set<std::string> expressions;
      const std::vector<Variant> variants = enumerate(*bound, known.target);
      for (const Variant& variant : variants) {
        const Result<CompileUnit> unit = compile_unit(variant);
        REQUIRE(unit);
        CHECK(unit->name_expression.find_first_of("{}") == std::string::npos);
        expressions.insert(std::to_string(variant.kernel) + unit->name_expression);
      }
      CHECK(expressions.size() == variants.size());
      CHECK(variants.empty() == !serves(bound->op, known.target));
    }
  }
}

TEST_CASE(
    "A value outside a trait's domain or a combination that does not exist is no compile unit") {
  Registry registry;
  Op op = sample_op();
  op.exists = [](const Traits& traits, const Target&) { return traits["SPLIT"] != 2; };
  const BoundOp& bound = **registry.add(std::move(op));
  Traits traits(bound.op.traits);
  traits.set("SPLIT", 9);
  const auto error = [&] {
    const Result<CompileUnit> unit = compile_unit({&bound.op, 0, traits, parse_target("sm_90")});
    REQUIRE_FALSE(unit);
    CHECK(unit.error().code == ErrorCode::kInvalidArgument);
    return unit.error().message;
  };
  CHECK(error() == "op \"sample\", trait \"SPLIT\": expected one of 1, 2, 3, found 9");
  traits.set("SPLIT", 2);
  CHECK(
      error() ==
      "sample SPLIT=2 ORDER=ns::kPeer PDL=false sm_90: this combination of traits does not exist");
}

}  // namespace
}  // namespace kiln::registry
