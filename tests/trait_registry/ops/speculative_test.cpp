// The description of row_argmax against its contract.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::registry {
namespace {

// Addresses on a device, far from each other: compared, never followed.
void* at(std::uintptr_t index, std::uintptr_t offset = 0) {
  return reinterpret_cast<void*>((index + 1) << 50 | offset);
}

class Fixture {
 public:
  const BoundOp& bound() const { return **registry_.find("row_argmax"); }

  std::string error(const Tensor& x, const Tensor& out) const {
    Problem problem(bound().names);
    int device = -1;
    const std::vector<Arg> args = {x, out};
    const Status status = check_call(bound(), args, true, problem, device);
    return status ? "" : status.error().message;
  }

  Problem problem(std::int64_t rows, std::int64_t n, const std::string& target) const {
    Problem problem(bound().names);
    problem.set_dim(0, rows);
    problem.set_dim(1, n);
    problem.set_target(parse_target(target));
    problem.set_pdl(true);
    return problem;
  }

 private:
  Registry registry_;
};

Tensor out(std::int64_t rows) {
  return {at(1), DType::kI64, {rows}};
}

TEST_CASE("row_argmax takes rows at any multiple of 4 bytes and as many as there are") {
  const Fixture f;
  CHECK(f.error({at(0), DType::kF32, {6, 129'280}}, out(6)).empty());
  CHECK(f.error({at(0, 4), DType::kF32, {6, 129'279}, {129'281, 1}}, out(6)).empty());
  CHECK(f.error({at(0), DType::kF32, {100'000, 1}}, out(100'000)).empty());
  CHECK(f.error({at(0), DType::kF32, {0, 0}}, out(0)).empty());
  CHECK(f.bound().op.family == "speculative");
  CHECK(f.bound().has_pdl_trait);
}

TEST_CASE("row_argmax refuses what is outside its contract and says what is expected") {
  const Fixture f;
  CHECK(f.error({at(0), DType::kF32, {2, 0}}, out(2)) ==
        "row_argmax: a row must have an element: n must be at least 1, found 0");
  CHECK(f.error({at(0, 2), DType::kF32, {2, 8}}, out(2)).find("aligned to 4 bytes") !=
        std::string::npos);
  CHECK(f.error({at(0), DType::kF32, {2, 8}, {16, 2}}, out(2)).find("innermost stride of 1") !=
        std::string::npos);
  CHECK(f.error({at(0), DType::kBF16, {2, 8}}, out(2)).find("expected dtype f32") !=
        std::string::npos);
  CHECK(
      f.error({at(0), DType::kF32, {2, 8}}, {at(1), DType::kI32, {2}}).find("expected dtype i64") !=
      std::string::npos);
  CHECK(f.error({at(0), DType::kF32, {2, 8}}, {at(0), DType::kI64, {2}}).find("shares bytes") !=
        std::string::npos);
}

TEST_CASE("row_argmax cuts a row into parts that cover it, in a workspace that holds them") {
  const Fixture f;
  for (const std::string target : {"sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a"}) {
    for (const std::int64_t rows : {1, 2, 6, 16, 31, 32, 33, 66, 67, 133, 1000, 2147483647}) {
      for (const std::int64_t n : {1, 31, 33, 1000, 32'768, 129'280, 262'144, 2147483647}) {
        CAPTURE(target, rows, n);
        const Problem problem = f.problem(rows, n, target);
        const Op& op = f.bound().op;
        const Geometry geometry = op.kernels[0].geometry(problem, {});
        const Geometry second = op.kernels[1].geometry(problem, {});
        const std::int64_t ctas = geometry.cluster.x;
        const std::int64_t parts = geometry.grid.y * ctas;
        const std::int64_t vectors = op.kernels[0].params.back().compute(problem);
        CHECK(op.kernels[1].params.back().compute(problem) == geometry.grid.y);
        CHECK((ctas == 1 || geometry.grid.y == 1));
        CHECK(ctas <= (target.starts_with("sm_90") ? 16 : target.starts_with("sm_12") ? 1 : 8));
        CHECK(geometry.grid.x == static_cast<std::uint32_t>(rows * ctas));
        CHECK((parts >= 1 && parts <= 65535));
        CHECK(parts * vectors >= (n + 3) / 4);
        CHECK((ctas != 1 || (parts - 1) * vectors < n / 4 + 1));
        CHECK(op.workspace(problem, {}) ==
              (geometry.grid.y == 1 ? 0U : static_cast<std::size_t>(rows * parts * 8)));
        CHECK((geometry.grid.y == 1) == (second.grid.x == 0));
        CHECK((geometry.grid.y == 1 || std::int64_t{second.grid.x} * second.block.x >= rows * 32));
      }
    }
    const Geometry one = f.bound().op.kernels[0].geometry(f.problem(1, 129'280, target), {});
    CHECK(one.grid.y * one.cluster.x >= 8);
    CHECK(f.bound().op.kernels[0].geometry(f.problem(0, 1000, target), {}).grid.x == 0);
    CHECK(f.bound().op.kernels[1].geometry(f.problem(0, 129'280, target), {}).grid.x == 0);
  }
}

TEST_CASE("row_argmax has few variants") {
  const Fixture f;
  CHECK(enumerate(f.bound(), parse_target("sm_90a")).size() == 4);
}

}  // namespace
}  // namespace kiln::registry
