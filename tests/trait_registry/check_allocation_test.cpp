// Counts allocations by replacing the global operators, which is why this is a program of its own.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/sample_op.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/variant.hpp"

namespace {
std::atomic<long> allocations{0};

void* counted(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}
}  // namespace

// Not inlined: GCC would see free() meet a pointer from operator new, and warn.
#define KILN_REPLACED [[gnu::noinline]]
KILN_REPLACED void* operator new(std::size_t size) {
  return counted(size);
}
KILN_REPLACED void* operator new[](std::size_t size) {
  return counted(size);
}
KILN_REPLACED void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size);
}
KILN_REPLACED void operator delete(void* memory) noexcept {
  std::free(memory);
}
KILN_REPLACED void operator delete[](void* memory) noexcept {
  std::free(memory);
}
KILN_REPLACED void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
KILN_REPLACED void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
KILN_REPLACED void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace kiln::registry {
namespace {

void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

// What a launch asks of the registry: find, check, choose, geometry.
long allocations_of(const Registry& registry, const char* name, const std::vector<Arg>& args,
                    bool exact) {
  const long before = allocations;
  const BoundOp& bound = **registry.find(name);
  Problem problem(bound.names);
  problem.set_target({9, 0, TargetSuffix::kArch});
  problem.set_pdl(true);
  int device = -1;
  const bool ok = check_call(bound, args, exact, problem, device).has_value();
  const Traits traits = choose_traits(bound, problem);
  const Geometry geometry = bound.op.kernels[0].geometry(problem, traits);
  const long after = allocations;
  CHECK(ok);
  CHECK(geometry.grid.x > 0);
  return after - before;
}

TEST_CASE("The counter sees an allocation") {
  const long before = allocations;
  const auto some = std::make_unique<int>(1);
  CHECK(allocations > before);
}

TEST_CASE("Checking a valid call and choosing its variant allocates nothing, in either mode") {
  Registry registry;
  REQUIRE(registry.add(test::sample_op()));
  const bool exact = GENERATE(false, true);
  CAPTURE(exact);
  SECTION("a GEMM") {
    const Tensor x(at(0x10000), DType::kBF16, {8, 512}, {1024, 1});
    const Tensor w(at(0x200000), DType::kBF16, {128, 512});
    const Tensor out(at(0x300000), DType::kBF16, {8, 128});
    CHECK(allocations_of(registry, "n128k512_gemm_bf16", {x, w, out}, exact) == 0);
  }
  SECTION(
      "an output in the gap between two rows of an input, which the exact test must look into") {
    const Tensor x(at(0x10000), DType::kBF16, {8, 16}, {128, 1});
    const Tensor table(at(0x200000), DType::kF32, {16});
    const Tensor out(at(0x10020), DType::kF32, {8, 4});
    CHECK(allocations_of(registry, "sample", {x, table, Arg(), 0.5, out}, exact) == 0);
  }
}

}  // namespace
}  // namespace kiln::registry
