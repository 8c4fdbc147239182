// engram_reciprocals, and the remainders that are worked out with them: docs/kernel_contracts.md,
// section 4, and the proof in kernel_templates/prelude/remainder.cuh.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <sys/wait.h>

#include "reference/engram_hash.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/hash_case.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/replayed.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

using Values = std::vector<std::int64_t>;

TEST_CASE("engram_reciprocals gives what the reference gives, for primes of every size",
          "[hash][sanitize]") {
  Gpu& gpu = Gpu::instance();
  std::mt19937_64 generator(6);
  Values primes = {1, 2, 3, INT64_MAX, INT64_MAX - 1};
  while (primes.size() < 2 * 7 * 33) {
    primes.push_back(static_cast<std::int64_t>(generator() >> (1 + generator() % 63)) | 1);
  }
  const Buffer from(primes.size() * 8);
  from.upload(primes.data(), primes.size() * 8);
  const GuardedBuffer to(primes.size() * 8);
  to.poison(0xA5);
  gpu.engine.launch(
      "engram_reciprocals",
      {Tensor(from.data(), DType::kI64, {2, 7, 33}), Tensor(to.data(), DType::kI64, {2, 7, 33})},
      gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(to.canaries_intact());
  const std::vector<std::uint8_t> bytes = to.download();
  for (std::size_t i = 0; i < primes.size(); ++i) {
    std::uint64_t got = 0;
    std::memcpy(&got, bytes.data() + i * 8, 8);
    CAPTURE(primes[i]);
    REQUIRE(got == reference::reciprocal_of(static_cast<std::uint64_t>(primes[i])));
  }
}

// Counts dividends whose remainder differs from the hardware's: random ones, and those around
// multiples of the divisor. A divisor of every size for every 64 dividends.
constexpr const char* kRemainderSource = R"cuda(
#include "prelude/remainder.cuh"

namespace {
__device__ unsigned long long mix(unsigned long long x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
__device__ bool wrong(unsigned long long h, unsigned long long p, unsigned long long m) {
  return kiln::remainder(h, p, m) != h % p;
}
}  // namespace

template <int>
__global__ void __launch_bounds__(256)
count_wrong(unsigned long long* count, long long threads) {
  const long long thread = blockIdx.x * 256ll + threadIdx.x;
  if (thread >= threads)
    return;
  unsigned long long found = 0;
  unsigned long long state = mix(thread);
  for (int divisor = 0; divisor < 16; ++divisor) {
    state = mix(state);
    const unsigned long long p = max(state >> (1 + (thread + divisor) % 63), 1ull);
    const unsigned long long m = kiln::reciprocal_of(p);
    for (int i = 0; i < 64; ++i) {
      state = mix(state);
      const unsigned long long h = state >> 1;
      found += wrong(h, p, m);
      if (i < 8) {
        const unsigned long long multiple = h - h % p;
        found += wrong(multiple, p, m) + wrong(multiple - 1, p, m) + wrong(multiple + p - 1, p, m);
      }
    }
  }
  if (found != 0)
    atomicAdd(count, found);
}
)cuda";

Op count_wrong_op() {
  ArgSpec count;
  count.name = "count";
  count.dtypes = {DType::kI64};
  count.shape = {1};
  count.alignment = 8;
  count.access = Access::kReadWrite;
  ArgSpec threads;
  threads.name = "threads";
  KernelSpec kernel;
  kernel.name = "count_wrong";
  kernel.source = "count_wrong.cu";
  kernel.instantiation = "count_wrong<0>";
  kernel.params = {Param::data("count"), Param::scalar("threads")};
  kernel.geometry = [](const Problem&, const Traits&) {
    return Geometry{.grid = {4096, 1, 1}, .block = {256, 1, 1}, .cluster = {}};
  };
  Op op;
  op.name = "test_count_wrong";
  op.family = "test";
  op.summary = "Counts remainders that differ from the hardware's.";
  op.args = {count, threads};
  op.kernels = {kernel};
  op.sources = {{"count_wrong.cu", kRemainderSource}};
  return op;
}

TEST_CASE("The remainder is right for 10^9 dividends on the device", "[hash]") {
  register_once(count_wrong_op());
  Gpu& gpu = Gpu::instance();
  const Buffer count(8);
  count.fill(0);
  gpu.engine.launch("test_count_wrong",
                    {Tensor(count.data(), DType::kI64, {1}), std::int64_t{1'000'000}},
                    gpu.stream.get());
  gpu.stream.synchronize();
  std::uint64_t wrong = 1;
  count.download(&wrong, 8);
  REQUIRE(wrong == 0);
}

// Hidden: a trap is the end of the process's context. The next test runs it in a process of its
// own.
TEST_CASE("A prime below 1 traps", "[.][reciprocal_trap]") {
  Gpu& gpu = Gpu::instance();
  const Values primes = {7, 0, 11};
  const Buffer from(24);
  const Buffer to(24);
  from.upload(primes.data(), 24);
  gpu.engine.launch("engram_reciprocals",
                    {Tensor(from.data(), DType::kI64, {3}), Tensor(to.data(), DType::kI64, {3})},
                    gpu.stream.get());
  try {
    gpu.stream.synchronize();
  } catch (const CudaError&) {
    std::filesystem::remove_all(gpu.cache.str());
    std::_Exit(42);  // Before destructors that would use the lost context.
  }
  FAIL("nothing failed");
}

TEST_CASE("A table with a prime below 1 is not built: the device traps", "[hash]") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = "'" + self + "' '[reciprocal_trap]' > /dev/null 2>&1";
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 42);
}

// ---------------------------------------------------------------------------------------------
// Programmatic dependent launch

Values random_primes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  Values primes(count);
  std::generate(primes.begin(), primes.end(), [&] {
    return static_cast<std::int64_t>(generator() >> (1 + generator() % 63)) | 1;
  });
  return primes;
}

std::vector<std::uint8_t> reciprocals_of(const Values& primes) {
  std::vector<std::uint8_t> bytes(primes.size() * 8);
  for (std::size_t i = 0; i < primes.size(); ++i) {
    const std::uint64_t value = reference::reciprocal_of(static_cast<std::uint64_t>(primes[i]));
    std::memcpy(bytes.data() + i * 8, &value, 8);
  }
  return bytes;
}

TEST_CASE("engram_reciprocals waits for its producer, and the next kernel for it", "[pdl]") {
  const std::int64_t elements = GENERATE(1, 257, 5000);
  const auto count = static_cast<std::size_t>(elements);
  CAPTURE(count);
  Gpu& gpu = Gpu::instance();
  const Values wanted = random_primes(count, 1);
  const Buffer source(count * 8);
  const Buffer others(count * 8);
  const Buffer primes(count * 8);
  const GuardedBuffer out(count * 8);
  const Buffer before(count * 8);
  const Buffer after(count * 8);
  source.upload(wanted.data(), count * 8);
  others.upload(random_primes(count, 2).data(), count * 8);
  const auto bytes_of = [&](const Buffer& buffer) {
    std::vector<std::uint8_t> bytes(buffer.bytes());
    buffer.download(bytes.data(), bytes.size());
    return bytes;
  };
  eagerly_and_replayed(
      [&] {
        primes.fill(0x11);  // A prime below 1 would be a trap.
        out.poison(0xA5);
        before.fill(0);
        after.fill(0);
      },
      [&] {
        late_copy(out.data(), before.data(), before.bytes(), kDelayNs);
        late_copy(source.data(), primes.data(), primes.bytes(), kDelayNs);
        gpu.engine.launch("engram_reciprocals",
                          {Tensor(primes.data(), DType::kI64, {elements}),
                           Tensor(out.data(), DType::kI64, {elements})},
                          gpu.stream.get());
        late_copy(others.data(), primes.data(), primes.bytes(), 0);
        late_copy(out.data(), after.data(), after.bytes(), 0);
      },
      [&] {
        REQUIRE(out.canaries_intact());
        REQUIRE(out.download() == reciprocals_of(wanted));
        REQUIRE(bytes_of(before) == std::vector<std::uint8_t>(count * 8, 0xA5));
        REQUIRE(bytes_of(after) == reciprocals_of(wanted));
      });
}

TEST_CASE("Hashes behind late primes and their reciprocals take both after the wait", "[pdl]") {
  const reference::EngramTables tables = random_tables(3, 4, 8);
  const reference::EngramStep step = random_step(tables, 40, {});
  const HashCall call(tables, step, kAllWide, true);
  const Buffer primes(call.primes().bytes());
  Gpu& gpu = Gpu::instance();
  eagerly_and_replayed(
      [&] {
        primes.fill(0x11);
        call.reciprocals().fill(0x22);
        call.poison(0xA5);
      },
      [&] {
        late_copy(call.primes().data(), primes.data(), primes.bytes(), kDelayNs);
        gpu.engine.launch("engram_reciprocals",
                          {Tensor(primes.data(), DType::kI64, {3, 3, 8}),
                           Tensor(call.reciprocals().data(), DType::kI64, {3, 3, 8})},
                          gpu.stream.get());
        call.launch(true, "", &primes);
      },
      [&] { REQUIRE(call.difference() == ""); });
}

}  // namespace
}  // namespace kiln::gpu
