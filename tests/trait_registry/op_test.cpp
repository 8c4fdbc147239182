#include <string>

#include <kiln/op.hpp>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/sample_op.hpp"

namespace kiln {
namespace {

TEST_CASE("A trait has a closed domain and spells its values as C++ does") {
  const TraitSpec split = TraitSpec::integers("M_SPLIT", "rows", 1, 8);
  CHECK(split.domain == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(split.spell(8) == "8");
  const TraitSpec pdl = TraitSpec::boolean("PDL", "");
  CHECK(pdl.domain == std::vector<std::int64_t>{0, 1});
  CHECK(pdl.spell(0) == "false");
  CHECK(pdl.spell(1) == "true");
  const TraitSpec order = TraitSpec::choice("ORDER", "", {"peer", "fast"});
  CHECK(order.domain == std::vector<std::int64_t>{0, 1});
  CHECK(order.spell(1) == "fast");
  CHECK(order.spell(7) == "7");  // Outside the domain: something a message can show.
}

TEST_CASE("Traits start at the first value of each domain and are read and set by name") {
  const Op op = test::sample_op();
  Traits traits(op.traits);
  CHECK(traits["SPLIT"] == 1);
  CHECK(traits["PDL"] == 0);
  traits.set("SPLIT", 3).set("PDL", 1);
  CHECK(traits["SPLIT"] == 3);
  CHECK(traits.at(2) == 1);
  CHECK(traits["NO_SUCH"] == 0);
  const Traits before = traits;
  traits.set("NO_SUCH", 5);
  CHECK(traits == before);
  CHECK_FALSE(traits == Traits(op.traits));
  CHECK(Traits()["SPLIT"] == 0);
}

TEST_CASE("A problem answers by name, and 0 or absent for names that the op does not have") {
  const Problem::Names names{{"m", "k"}, {"x", "out"}};
  Problem problem(names);
  CHECK(problem.dim("m") == 0);
  CHECK_FALSE(problem.present("x"));
  problem.set_dim(1, 512);
  problem.set_arg(0, DType::kF32);
  problem.set_target({9, 0, TargetSuffix::kArch});
  problem.set_pdl(true);
  CHECK(problem.dim("k") == 512);
  CHECK(problem.dim("n") == 0);
  CHECK(problem.present("x"));
  CHECK(problem.dtype("x") == DType::kF32);
  CHECK_FALSE(problem.present("out"));
  CHECK_FALSE(problem.present("y"));
  CHECK(problem.target().compute_capability() == 90);
  CHECK(problem.pdl());
}

TEST_CASE("A parameter says what it is filled from") {
  using Source = Param::Source;
  CHECK(Param::data("x").source == Source::kData);
  CHECK(Param::data("x").name == "x");
  CHECK(Param::stride("x", 1).axis == 1);
  CHECK(Param::stride("x", 1).type == ScalarType::kI64);
  CHECK(Param::dim("m", ScalarType::kI32).type == ScalarType::kI32);
  CHECK(Param::dim("m").source == Source::kDim);
  CHECK(Param::scalar("eps").source == Source::kScalar);
  const Param twice = Param::computed(
      "2*m", [](const Problem& p) { return 2 * p.dim("m"); }, ScalarType::kI32);
  CHECK(twice.source == Source::kComputed);
  CHECK(twice.type == ScalarType::kI32);
  CHECK(Param::workspace().source == Source::kWorkspace);
  CHECK(Param::constants_ready().source == Source::kConstantsReady);
}

TEST_CASE("Scalars are found by name; an absent one, or a real one, has the value asked for") {
  const Problem::Names names{{}, {"x", "count", "eps", "block"}};
  const std::array<Arg, 4> args = {Arg(), Arg(7), Arg(0.5), Arg()};
  const Scalars scalars(names, args.data());
  CHECK(scalars.integer("count") == 7);
  CHECK(scalars.integer("block") == 0);
  CHECK(scalars.integer("block", 3) == 3);
  CHECK(scalars.integer("eps", 3) == 3);
  CHECK(scalars.integer("nosuch", 3) == 3);
}

}  // namespace
}  // namespace kiln
