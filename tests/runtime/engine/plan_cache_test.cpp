#include "runtime/plan_cache.hpp"

#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

class PlanCacheTest {
 public:
  PlanCacheTest() {
    machine_.enter();
    auto loaded = runtime::Driver::load(machine_.options().driver);
    REQUIRE(loaded);
    driver_ = *loaded;
    auto added = registry_.add(scale_op());
    REQUIRE(added);
    bound_ = *added;
  }

  Problem problem(std::int64_t m, std::int64_t n = 64) const {
    Problem problem(bound_->names);
    problem.set_dim(0, m);
    problem.set_dim(1, n);
    return problem;
  }
  runtime::PlanKey key(const Problem& problem, int device = 0) const {
    return {bound_, device, problem};
  }
  std::unique_ptr<const runtime::Plan> plan() const {
    return std::make_unique<const runtime::Plan>(driver_, *bound_, runtime::Context{},
                                                 std::vector<runtime::PlanStep>{}, 0);
  }

 private:
  Machine machine_;
  std::shared_ptr<const runtime::Driver> driver_;
  registry::Registry registry_;
  const registry::BoundOp* bound_ = nullptr;
};

}  // namespace

TEST_CASE("The plan cache tells shapes, dtypes and devices apart, through all its growths") {
  const PlanCacheTest test;
  runtime::PlanCache cache;
  std::vector<const runtime::Plan*> plans;
  for (int m = 0; m < 1000; ++m) {
    const Problem problem = test.problem(m);
    CHECK(cache.find(test.key(problem)) == nullptr);
    auto plan = test.plan();
    plans.push_back(cache.insert(test.key(problem), plan));
    CHECK(plan == nullptr);
  }
  for (int m = 0; m < 1000; ++m) {
    CHECK(cache.find(test.key(test.problem(m))) == plans[static_cast<std::size_t>(m)]);
  }
  CHECK(cache.find(test.key(test.problem(1, 65))) == nullptr);
  CHECK(cache.find(test.key(test.problem(1), 1)) == nullptr);
  Problem other_dtype = test.problem(1);
  other_dtype.set_arg(0, DType::kBF16);
  CHECK(cache.find(test.key(other_dtype)) == nullptr);
}

TEST_CASE("The first plan inserted under a key stays, and a later one is left with its maker") {
  const PlanCacheTest test;
  runtime::PlanCache cache;
  const Problem problem = test.problem(5);
  auto first = test.plan();
  const runtime::Plan* kept = cache.insert(test.key(problem), first);
  auto second = test.plan();
  CHECK(cache.insert(test.key(problem), second) == kept);
  CHECK(second != nullptr);
}

TEST_CASE("A full plan cache takes no more and still serves what it has") {
  const PlanCacheTest test;
  runtime::PlanCache cache;
  for (std::size_t m = 0; m < runtime::PlanCache::kMaxPlans; ++m) {
    auto plan = test.plan();
    if (cache.insert(test.key(test.problem(static_cast<std::int64_t>(m))), plan) == nullptr) {
      FAIL("refused plan " << m);
    }
  }
  auto plan = test.plan();
  const Problem beyond = test.problem(std::int64_t{1} << 30);
  CHECK(cache.insert(test.key(beyond), plan) == nullptr);
  CHECK(plan != nullptr);
  CHECK(cache.find(test.key(beyond)) == nullptr);
  CHECK(cache.find(test.key(test.problem(12345))) != nullptr);
}

}  // namespace kiln::test
