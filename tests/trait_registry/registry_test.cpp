#include "trait_registry/registry.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/sample_op.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::registry {
namespace {

using test::sample_op;

TEST_CASE("A new registry holds the built-in ops, each with what a listing shows") {
  const Registry registry;
  const std::vector<const BoundOp*> ops = registry.all();
  CHECK(ops.size() == builtin_ops().size());
  for (const std::string name : {"n128k512_gemm_bf16", "n32k5120_gemm_bf16"}) {
    CAPTURE(name);
    const Result<const BoundOp*> found = registry.find(name);
    REQUIRE(found);
    CHECK((*found)->builtin);
  }
  for (const BoundOp* bound : ops) {
    CAPTURE(bound->op.name);
    CHECK_FALSE(bound->op.family.empty());
    CHECK_FALSE(bound->op.summary.empty());
    CHECK(bound->op.min_compute_capability >= 90);
    CHECK(bound->constants_switch);
    for (const ArgSpec& arg : bound->op.args) {
      CHECK_FALSE(arg.summary.empty());
    }
    for (const TraitSpec& trait : bound->op.traits) {
      CHECK_FALSE(trait.summary.empty());
    }
  }
}

// What the contract says of a problem in which every optional argument but `given` is absent.
std::string error(const BoundOp& bound, const std::string& given, Problem& problem) {
  for (std::size_t i = 0; i < bound.op.args.size(); ++i) {
    const ArgSpec& arg = bound.op.args[i];
    if (arg.optional && arg.name != given) {
      problem.set_absent(i);
    } else if (arg.dtypes.empty()) {
      problem.set_scalar(i);
    } else {
      problem.set_arg(i, arg.dtypes.front());
    }
  }
  return bound.op.contract ? bound.op.contract(problem) : std::string();
}

std::vector<Dim3> grids(const BoundOp& bound, const Problem& problem) {
  std::vector<Dim3> grids;
  for (const KernelSpec& kernel : bound.op.kernels) {
    grids.push_back(kernel.geometry(problem, choose_traits(bound, problem)).grid);
  }
  return grids;
}

TEST_CASE("No built-in op takes an extent whose grid passes 31 bits") {
  const Registry registry;
  const std::map<std::string, std::int64_t> usual = {{"h", 8}, {"m", 8}, {"n", 8}};
  std::string refused;
  for (const BoundOp* const bound : registry.all()) {
    const std::vector<std::string>& symbols = bound->names.symbols;
    int accepted = 0;
    for (const std::string given : {"", "keep", "published"}) {
      Problem problem(bound->names);
      problem.set_target(parse_target("sm_90a"));
      problem.set_pdl(true);
      const auto set_usual = [&](std::size_t i) {
        const auto found = usual.find(symbols[i]);
        const bool few = bound->op.name == "engram_commit_history" && symbols[i] == "k";
        problem.set_dim(i, few ? 4 : found != usual.end() ? found->second : 512);
      };
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        set_usual(i);
      }
      if (!error(*bound, given, problem).empty()) {
        continue;
      }
      ++accepted;
      for (std::size_t i = 0; i < symbols.size(); ++i) {
        if ((bound->i32_symbols >> i & 1U) != 0) {
          continue;  // Refused before the contract is asked.
        }
        CAPTURE(bound->op.name, given, symbols[i]);
        const std::vector<Dim3> before = grids(*bound, problem);
        for (const std::int64_t extent : {std::int64_t{1} << 31, (std::int64_t{1} << 32) + 1}) {
          problem.set_dim(i, extent);
          const std::string wrong = error(*bound, given, problem);
          if (wrong.empty()) {
            CHECK(grids(*bound, problem) == before);
          } else if (symbols[i] == "rows" && given.empty()) {
            CHECK(wrong == "rows must be at most 2147483647, found " + std::to_string(extent));
            refused += extent >> 32 != 0 ? bound->op.name + " " : "";
          }
        }
        if (symbols[i] == "rows") {
          problem.set_dim(i, std::numeric_limits<std::int32_t>::max());
          CHECK(error(*bound, given, problem).empty());
          for (const Dim3& grid : grids(*bound, problem)) {
            CHECK(grid.x <= 0x7fffffffU);
          }
        }
        set_usual(i);
      }
    }
    CAPTURE(bound->op.name);
    CHECK(accepted > 0);
  }
  for (const std::string name :
       {"row_argmax", "candidate_select_blocks", "candidate_block_scores", "publish_candidate_mask",
        "filter_topk_pages", "q_rope_store", "rope_inplace"}) {
    CAPTURE(name, refused);
    CHECK(refused.find(name) != std::string::npos);
  }
}

TEST_CASE("A duplicate name is refused loudly and the first op stays") {
  Registry registry;
  REQUIRE(registry.add(sample_op("mine")));
  Op second = sample_op("mine");
  second.summary = "another";
  const Result<const BoundOp*> again = registry.add(std::move(second));
  REQUIRE_FALSE(again);
  CHECK(again.error().code == ErrorCode::kDuplicateOp);
  CHECK(again.error().message ==
        "op \"mine\" is registered already, by this engine's owner (for tests): names are never "
        "replaced, so register it once per engine or give one of the two another name");
  CHECK((*registry.find("mine"))->op.summary == "for tests");

  const Result<const BoundOp*> builtin = registry.add(sample_op("n128k512_gemm_bf16"));
  REQUIRE_FALSE(builtin);
  CHECK(builtin.error().code == ErrorCode::kDuplicateOp);
  CHECK(builtin.error().message.find("as a built-in op") != std::string::npos);
}

TEST_CASE("Two registries share nothing") {
  Registry one;
  Registry other;
  REQUIRE(one.add(sample_op("mine")));
  CHECK_FALSE(other.find("mine"));
  CHECK(other.add(sample_op("mine")));
}

TEST_CASE("Options of the registry come after each op's own, once") {
  Registry registry({"--generate-line-info"});
  for (const BoundOp* bound : registry.all()) {
    CHECK(bound->op.options.back() == "--generate-line-info");
  }
  Op op = sample_op("with_options");
  op.options = {"--generate-line-info", "--use_fast_math"};
  CHECK(value_or_throw(registry.add(op))->op.options == op.options);
}

TEST_CASE(
    "A profiler shows a built-in kernel by its op or step, and traits as listings order them") {
  const Registry registry;
  for (const BoundOp* bound : registry.all()) {
    for (const KernelSpec& kernel : bound->op.kernels) {
      const std::string& shown = kernel.instantiation;
      CAPTURE(shown);
      REQUIRE(shown.starts_with("kiln::"));
      const std::string name = shown.substr(6, shown.find('<') - 6);
      CHECK((name == bound->op.name || name.find(kernel.name) != std::string::npos));
      std::size_t last = 0;
      for (const TraitSpec& trait : bound->op.traits) {
        const std::size_t at = shown.find("{" + trait.name + "}");
        CHECK((at == std::string::npos || at > last));
        last = at == std::string::npos ? last : at;
      }
    }
  }
}

TEST_CASE("Ops are listed in order of registration") {
  Registry registry;
  const std::size_t builtin = registry.all().size();
  REQUIRE(registry.add(sample_op("zebra")));
  REQUIRE(registry.add(sample_op("ant")));
  const std::vector<const BoundOp*> ops = registry.all();
  REQUIRE(ops.size() == builtin + 2);
  CHECK(ops[builtin]->op.name == "zebra");
  CHECK(ops[builtin + 1]->op.name == "ant");
}

std::string unknown(const Registry& registry, const std::string& name) {
  const Result<const BoundOp*> found = registry.find(name);
  REQUIRE_FALSE(found);
  CHECK(found.error().code == ErrorCode::kUnknownOp);
  return found.error().message;
}

TEST_CASE("An unknown op is an error that names near matches") {
  Registry registry;
  CHECK(unknown(registry, "n128k512_gemm_bf61") ==
        "no op is named \"n128k512_gemm_bf61\"; did you mean \"n128k512_gemm_bf16\"?");
  CHECK(unknown(registry, "n32k512_gemm_bf16").find("\"n32k5120_gemm_bf16\"") != std::string::npos);
  CHECK(unknown(registry, "n128k512").find("did you mean \"n128k512_gemm_bf16\"?") !=
        std::string::npos);
  // The nearest comes first.
  REQUIRE(registry.add(sample_op("norm_a")));
  REQUIRE(registry.add(sample_op("norm_ab")));
  CHECK(unknown(registry, "norm_abx") ==
        "no op is named \"norm_abx\"; did you mean \"norm_ab\" or \"norm_a\"?");
  CHECK(unknown(registry, "quantum_chess").find("none of a similar name") != std::string::npos);
  CHECK(unknown(registry, "").find("no op is named \"\"") != std::string::npos);
}

TEST_CASE("At most three near matches are named") {
  Registry registry;
  for (const std::string name : {"op_1", "op_2", "op_3", "op_4"}) {
    REQUIRE(registry.add(sample_op(name)));
  }
  CHECK(unknown(registry, "op_0") ==
        "no op is named \"op_0\"; did you mean \"op_1\" or \"op_2\" or \"op_3\"?");
}

TEST_CASE("A bound op has its names looked up") {
  Registry registry;
  const BoundOp& bound = **registry.add(sample_op());
  CHECK(bound.names.symbols == std::vector<std::string>{"m", "k"});
  CHECK(bound.names.args == std::vector<std::string>{"x", "table", "mask", "eps", "out"});
  CHECK(bound.args[0].shape[1].symbol == 1);
  CHECK(bound.args[4].shape[1].symbol == -1);
  CHECK(bound.args[4].shape[1].extent == 4);
  CHECK(bound.args[4].written);
  CHECK_FALSE(bound.args[0].written);
  CHECK(bound.has_pdl_trait);
  CHECK(bound.constants_switch);
  CHECK(bound.i32_symbols == 1);
  REQUIRE(bound.params.size() == 1);
  const std::vector<BoundParam>& params = bound.params[0];
  REQUIRE(params.size() == 8);
  CHECK(params[1].source == Param::Source::kStride);
  CHECK(params[1].index == 0);
  CHECK(params[4].index == 3);
  CHECK(params[4].type == ScalarType::kF32);
  CHECK(params[6].index == 0);
  CHECK(params[6].type == ScalarType::kI32);
  CHECK(params[7].type == ScalarType::kBool);
}

TEST_CASE(
    "Several kernels, workspace, shared memory, clusters and cooperation are evaluated without a "
    "GPU") {
  Registry registry;
  Op op = sample_op();
  op.workspace = [](const Problem& problem, const Traits& traits) {
    return static_cast<std::size_t>(problem.dim("m") * traits["SPLIT"]) * sizeof(float);
  };
  op.kernels[0].params.push_back(Param::workspace());
  KernelSpec second = op.kernels[0];
  second.name = "finish";
  second.geometry = [](const Problem& problem, const Traits&) {
    return Geometry{.grid = {static_cast<std::uint32_t>(problem.dim("m"))},
                    .block = {32},
                    .dynamic_shared_bytes = 1024,
                    .cluster = {2, 1, 1},
                    .cooperative = true};
  };
  op.kernels.push_back(second);
  const BoundOp& bound = **registry.add(std::move(op));
  REQUIRE(bound.params.size() == 2);
  CHECK(bound.params[1].back().source == Param::Source::kWorkspace);
  Problem problem(bound.names);
  problem.set_dim(0, 6);
  Traits traits(bound.op.traits);
  traits.set("SPLIT", 3);
  CHECK(bound.op.workspace(problem, traits) == 72);
  CHECK(bound.op.kernels[0].geometry(problem, traits).grid == Dim3{2, 1, 1});
  const Geometry geometry = bound.op.kernels[1].geometry(problem, traits);
  CHECK(geometry.grid == Dim3{6, 1, 1});
  CHECK(geometry.dynamic_shared_bytes == 1024);
  CHECK(geometry.cluster == Dim3{2, 1, 1});
  CHECK(geometry.cooperative);
}

TEST_CASE("A kernel that takes a constant without the switch is known to have none") {
  Registry registry;
  Op op = sample_op();
  op.kernels[0].params.pop_back();
  CHECK_FALSE((*registry.add(std::move(op)))->constants_switch);
}

TEST_CASE(
    "Addresses of registered ops stay while others are added and looked up from other threads") {
  Registry registry;
  const BoundOp* first = *registry.add(sample_op("first"));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        wrong += *registry.find("first") != first;
        wrong += registry.find("missing").has_value();
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    REQUIRE(registry.add(sample_op("op_" + std::to_string(i))));
  }
  stop = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  CHECK(wrong == 0);
  CHECK(registry.find("op_199"));
}

TEST_CASE("Of threads that register one name at once, exactly one succeeds") {
  Registry registry;
  std::atomic<int> added{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { added += registry.add(sample_op("same")).has_value(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(added == 1);
}

}  // namespace
}  // namespace kiln::registry
