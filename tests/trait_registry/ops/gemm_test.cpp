// The descriptions of the two small GEMMs against their contract.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::registry {
namespace {

struct Gemm {
  std::string name;
  std::int64_t n, k;
};
const Gemm kGemms[] = {{"n128k512_gemm_bf16", 128, 512}, {"n32k5120_gemm_bf16", 32, 5120}};

void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

constexpr std::uintptr_t kX = std::uintptr_t{1} << 50;
constexpr std::uintptr_t kW = 0x200000;
constexpr std::uintptr_t kOut = std::uintptr_t{1} << 52;

class Fixture {
 public:
  explicit Fixture(const Gemm& gemm)
      : gemm_(gemm),
        bound_(**registry_.find(gemm.name)),
        w_(at(kW), DType::kBF16, {gemm.n, gemm.k}) {}

  const BoundOp& bound() const { return bound_; }
  const Gemm& gemm() const { return gemm_; }

  Tensor x(std::int64_t m, std::int64_t stride, std::uintptr_t address = kX) const {
    return {at(address), DType::kBF16, {m, gemm_.k}, {stride, 1}};
  }
  Tensor out(std::int64_t m) const { return {at(kOut), DType::kBF16, {m, gemm_.n}}; }

  std::string error(const Tensor& x, const Tensor& w, const Tensor& out) const {
    Problem problem(bound_.names);
    int device = -1;
    const std::vector<Arg> args = {x, w, out};
    const Status status = check_call(bound_, args, true, problem, device);
    return status ? "" : status.error().message;
  }
  std::string error(const Tensor& x) const { return error(x, w_, out(x.dlpack().shape[0])); }
  const Tensor& w() const { return w_; }

  Problem problem(std::int64_t m, const std::string& target = "sm_90a", bool pdl = true) const {
    Problem result(bound_.names);
    result.set_dim(0, m);
    result.set_target(parse_target(target));
    result.set_pdl(pdl);
    return result;
  }

 private:
  Gemm gemm_;
  Registry registry_;
  const BoundOp& bound_;
  Tensor w_;
};

// The tile of one CTA, as the two templates state it.
bool is_n128(const Gemm& gemm) {
  return gemm.n == 128;
}

std::int64_t rows_of_cta(const Gemm& gemm, const Traits& traits) {
  return traits["M_SPLIT"] * (is_n128(gemm) ? traits["ROW_WARPS"] : 1);
}

std::int64_t columns_of_cta(const Gemm& gemm, const Traits& traits) {
  if (is_n128(gemm)) {
    return traits["ROW_WARPS"] == 1 ? 4 : 8;
  }
  return traits["COLUMN_GROUPS"] == 1 ? 1 : 4;
}

std::uint32_t threads_of_cta(const Gemm& gemm, const Traits& traits) {
  return is_n128(gemm) ? 128 : static_cast<std::uint32_t>(320 * traits["COLUMN_GROUPS"]);
}

TEST_CASE("A GEMM takes row-strided x on 32-byte boundaries, constant w, contiguous out") {
  for (const Gemm& gemm : kGemms) {
    CAPTURE(gemm.name);
    const Fixture f(gemm);
    CHECK(f.error(f.x(8, gemm.k)).empty());
    CHECK(f.error(f.x(8, gemm.k + 16)).empty());
    CHECK(f.error(f.x(0, gemm.k)).empty());
    CHECK(f.error(f.x(8, gemm.k + 8)) == gemm.name +
                                             ": argument \"x\": expected each row to start on a "
                                             "32-byte boundary, found a stride of " +
                                             std::to_string(gemm.k + 8) + " elements (" +
                                             std::to_string(2 * gemm.k + 16) +
                                             " bytes) along axis 0");
    CHECK(f.error(f.x(8, gemm.k, kX + 16)).find("aligned to 32 bytes") != std::string::npos);
    const Tensor w_off(at(kW + 16), DType::kBF16, {gemm.n, gemm.k});
    CHECK(f.error(f.x(8, gemm.k), w_off, f.out(8))
              .find("argument \"w\": expected an address aligned to 32") != std::string::npos);
    const Tensor w_strided(at(kW), DType::kBF16, {gemm.n, gemm.k}, {gemm.k + 16, 1});
    CHECK(f.error(f.x(8, gemm.k), w_strided, f.out(8))
              .find("argument \"w\": expected a contiguous") != std::string::npos);
    const Tensor out_strided(at(kOut), DType::kBF16, {8, gemm.n}, {gemm.n * 2, 1});
    CHECK(f.error(f.x(8, gemm.k), f.w(), out_strided)
              .find("argument \"out\": expected a contiguous") != std::string::npos);
    const Tensor out_f32(at(kOut), DType::kF32, {8, gemm.n});
    CHECK(f.error(f.x(8, gemm.k), f.w(), out_f32) ==
          gemm.name + ": argument \"out\": expected dtype bf16, found f32");
    CHECK(f.error(f.x(8, gemm.k), f.w(), f.out(7)) ==
          gemm.name + ": argument \"out\": expected shape [m, " + std::to_string(gemm.n) +
              "] with m = 8 as in argument \"x\", found [7, " + std::to_string(gemm.n) + "]");
    CHECK(f.bound().op.args[1].constant);
    CHECK(f.bound().constants_switch);
  }
}

TEST_CASE("The contract takes any m of 32 bits; the policy stops at MAX_M = 32") {
  for (const Gemm& gemm : kGemms) {
    CAPTURE(gemm.name);
    const Fixture f(gemm);
    constexpr std::int64_t kMaxInt = std::numeric_limits<std::int32_t>::max();
    CHECK(f.error(f.x(4097, gemm.k)).empty());
    CHECK(f.error(f.x(kMaxInt, gemm.k)).empty());
    CHECK(f.error(f.x(kMaxInt + 1, gemm.k)).find("expected m of at most 2147483647") !=
          std::string::npos);
    CHECK(policy_reason(f.bound(), f.problem(32)).empty());
    CHECK(policy_reason(f.bound(), f.problem(33)) == "m is above MAX_M = 32");
    CHECK(policy_reason(f.bound(), f.problem(0)).empty());
  }
}

TEST_CASE(
    "The chosen traits are an existing variant at every m, arch and PDL, and cover every row and "
    "column once") {
  for (const Gemm& gemm : kGemms) {
    const Fixture f(gemm);
    const KernelSpec& kernel = f.bound().op.kernels[0];
    for (const std::string target :
         {"sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120", "sm_120a"}) {
      for (const std::int64_t m :
           {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 100, 4097, 2147483647}) {
        for (const bool pdl : {false, true}) {
          CAPTURE(gemm.name, target, m, pdl);
          const Problem problem = f.problem(m, target, pdl);
          const Traits traits = choose_traits(f.bound(), problem);
          CHECK(traits["PDL"] == (pdl ? 1 : 0));
          CHECK(compile_unit({&f.bound().op, 0, traits, problem.target()}));
          const Geometry geometry = kernel.geometry(problem, traits);
          const std::int64_t rows = rows_of_cta(gemm, traits);
          CHECK(std::int64_t{geometry.grid.x} * rows >= m);
          CHECK((std::int64_t{geometry.grid.x} - 1) * rows < m);
          CHECK(std::int64_t{geometry.grid.x} <= 2147483647);
          CHECK(geometry.grid.y <= 65535);
          CHECK(geometry.block.x % 32 == 0);
          CHECK(geometry.cluster == Dim3{1, 1, 1});
          CHECK_FALSE(geometry.cooperative);
        }
      }
    }
  }
}

TEST_CASE(
    "Every variant has a launch that covers all columns with the threads its kernel expects") {
  for (const Gemm& gemm : kGemms) {
    const Fixture f(gemm);
    for (const Variant& variant : enumerate(f.bound(), parse_target("sm_90a"))) {
      CAPTURE(to_string(variant));
      const Geometry geometry = f.bound().op.kernels[0].geometry(f.problem(8), variant.traits);
      CHECK(std::int64_t{geometry.grid.y} * columns_of_cta(gemm, variant.traits) == gemm.n);
      CHECK(geometry.block == Dim3{threads_of_cta(gemm, variant.traits), 1, 1});
    }
  }
}

TEST_CASE("No row gives a grid that launches nothing") {
  for (const Gemm& gemm : kGemms) {
    const Fixture f(gemm);
    const Problem problem = f.problem(0);
    const Geometry geometry =
        f.bound().op.kernels[0].geometry(problem, choose_traits(f.bound(), problem));
    CHECK(geometry.grid.x == 0);
  }
}

TEST_CASE("M_SPLIT runs from 1 to 8 and PDL is a trait") {
  for (const Gemm& gemm : kGemms) {
    const Fixture f(gemm);
    const Op& op = f.bound().op;
    CHECK(op.family == "gemm");
    CHECK(op.min_compute_capability == 90);
    CHECK(op.traits[0].name == "M_SPLIT");
    CHECK(op.traits[0].domain == std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
    CHECK(f.bound().has_pdl_trait);
    CHECK_FALSE(op.workspace);
  }
}

TEST_CASE("An output that is the input, or part of the weights, is refused") {
  for (const Gemm& gemm : kGemms) {
    CAPTURE(gemm.name);
    const Fixture f(gemm);
    const Tensor on_x(at(kX), DType::kBF16, {8, gemm.n});
    CHECK(f.error(f.x(8, gemm.k), f.w(), on_x).find("shares bytes with argument \"x\"") !=
          std::string::npos);
    const Tensor on_w(at(kW + 64), DType::kBF16, {8, gemm.n});
    CHECK(f.error(f.x(8, gemm.k), f.w(), on_w).find("shares bytes with argument \"w\"") !=
          std::string::npos);
  }
}

}  // namespace
}  // namespace kiln::registry
