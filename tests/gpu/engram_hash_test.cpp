// docs/kernel_contracts.md, sections 4 and 6: the hashes of the engram, bit for bit against the CPU
// reference, and what they do to histories.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <sys/wait.h>

#include "tests/gpu/support/forced_variant.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/hash_case.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

using reference::EngramStep;
using reference::EngramTables;
using Values = std::vector<std::int64_t>;

constexpr HashMode kModes[] = {HashMode::kDecode, HashMode::kVerify, HashMode::kExtend,
                               HashMode::kRagged};
constexpr std::int64_t kTokens[] = {1,  2,  3,  5,  6,  7,   8,    9,    31,   32,
                                    33, 48, 64, 96, 97, 264, 1000, 1024, 4097, 9001};

TEST_CASE("engram_hash_ids agrees with the reference at every number of tokens, in every mode",
          "[hash]") {
  const HashMode mode = GENERATE(from_range(std::begin(kModes), std::end(kModes)));
  const bool reciprocals = GENERATE(false, true);
  const EngramTables tables = random_tables(3, 4, 8);
  StepOptions options;
  options.mode = mode;
  for (const std::int64_t t : kTokens) {
    for (const bool pdl : {true, false}) {
      CAPTURE(static_cast<int>(mode), reciprocals, t, pdl);
      REQUIRE(run_hash(tables, t, options, reciprocals, pdl) == "");
    }
  }
}

TEST_CASE("engram_hash_ids takes every order, and any number of layers and heads", "[hash]") {
  for (const std::int64_t order : {2, 3, 4, 5, 6, 7, 8}) {
    for (const std::int64_t heads : {1, 2, 3, 31, 32}) {
      for (const std::int64_t layers : {1, 2, 40}) {
        const EngramTables tables = random_tables(layers, order, heads);
        for (const std::int64_t t : {1, 50}) {
          CAPTURE(order, heads, layers, t);
          StepOptions options;
          options.mode = kModes[static_cast<std::size_t>(heads % 4)];
          REQUIRE(run_hash(tables, t, options, heads % 2 == 0) == "");
        }
      }
    }
  }
}

TEST_CASE("Index-like inputs are int32 or int64, each on its own", "[hash]") {
  const EngramTables tables = random_tables(2, 4, 3);
  for (const HashMode mode : kModes) {
    for (Widths widths = 0; widths < 256; widths += 5) {
      CAPTURE(static_cast<int>(mode), widths);
      StepOptions options;
      options.mode = mode;
      REQUIRE(run_hash(tables, 70, options, false, true, widths) == "");
    }
  }
}

TEST_CASE("Token ids of any 64 bits stay inside the map", "[hash][sanitize]") {
  const EngramTables tables = random_tables(2, 4, 3);
  EngramStep step = random_step(tables, 6, {});
  step.input_ids = {INT64_MAX, INT64_MIN, std::int64_t{1} << 40, -(std::int64_t{1} << 40),
                    4999,      5000};
  step.positions = Values(6, 100);
  for (const bool images : {false, true}) {
    if (images) {
      step.image_token_id = 77;
      step.mm_pad_shift = std::int64_t{1} << 35;
    }
    HashCall call(tables, step, kAllWide, true);
    call.poison(0xA5);
    call.launch();
    Gpu::instance().stream.synchronize();
    REQUIRE(call.difference() == "");
  }
}

TEST_CASE("Images block from where they stand, inside a run and before it; padding blocks all",
          "[hash]") {
  const HashMode mode = GENERATE(from_range(std::begin(kModes), std::end(kModes)));
  const EngramTables tables = random_tables(2, 5, 4);
  for (const bool images : {false, true}) {
    for (const bool pads : {false, true}) {
      for (const bool slots : {false, true}) {
        for (const std::int64_t t : {1, 9, 400}) {
          CAPTURE(static_cast<int>(mode), images, pads, slots, t);
          StepOptions options;
          options.mode = mode;
          options.images = images;
          options.pads = pads;
          options.slots = slots;
          REQUIRE(run_hash(tables, t, options, true) == "");
        }
      }
    }
  }
}

TEST_CASE("Ragged runs of any number of requests are found", "[hash]") {
  const EngramTables tables = random_tables(1, 4, 2);
  for (const std::int64_t requests : {1, 2, 7, 8, 9, 15, 16, 63, 64, 65, 511, 512, 513, 4100}) {
    for (const std::int64_t t : {1, 40, 3000}) {
      CAPTURE(requests, t);
      StepOptions options;
      options.mode = HashMode::kRagged;
      options.requests = requests;
      REQUIRE(run_hash(tables, t, options, true) == "");
    }
  }
}

TEST_CASE("engram_hash_ids is right on what the memory checkers run", "[hash][sanitize]") {
  const HashMode mode = GENERATE(from_range(std::begin(kModes), std::end(kModes)));
  const EngramTables tables = random_tables(2, 4, 3);
  StepOptions options;
  options.mode = mode;
  options.images = true;
  for (const std::int64_t t : {1, 3, 33, 129}) {
    CAPTURE(static_cast<int>(mode), t);
    REQUIRE(run_hash(tables, t, options, t % 2 == 0) == "");
  }
}

TEST_CASE("No token, or no request, is no error", "[hash][sanitize]") {
  const EngramTables tables = random_tables(2, 4, 3);
  REQUIRE(run_hash(tables, 0, {}, true) == "");
  EngramStep step = random_step(tables, 5, {});
  step.qo_indptr = Values{0};  // All five tokens are padding.
  step.req_slots = Values{};
  HashCall call(tables, step, kAllWide, true);
  call.poison(0xA5);
  call.launch();
  Gpu::instance().stream.synchronize();
  REQUIRE(call.difference() == "");
}

TEST_CASE("Every variant of the hashes gives the same ids", "[hash][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const OpHandle original = gpu.engine.op("engram_hash_ids");
  const EngramTables tables = random_tables(2, 4, 5);
  std::size_t count = 0;
  for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
    if (variant.traits[kPdlTrait] == 0) {
      continue;  // Asked for below.
    }
    const Op forced = forced_variant(original.op(), variant.traits, std::to_string(count++));
    gpu.engine.register_op(forced);
    for (const std::int64_t t : {1, 33, 129}) {
      for (const bool pdl : {true, false}) {
        CAPTURE(to_string(variant), t, pdl);
        // Reciprocals are there whether the variant reads them or not.
        REQUIRE(run_hash(tables, t, {}, true, pdl, kAllWide, forced.name) == "");
      }
    }
  }
  REQUIRE(count >= 4);
}

// ---------------------------------------------------------------------------------------------
// Histories

// Live rows have distinct slots; a padding row, one of four, has the slot of a live row far away.
void alias_padding(EngramStep& step, Values& out_cache_loc) {
  Values& slots = *step.req_slots;
  const std::size_t t = slots.size();
  for (std::size_t i = 0; i < t; ++i) {
    out_cache_loc.push_back(i % 4 == 2 ? 0 : static_cast<std::int64_t>(i) + 1);
  }
  for (std::size_t i = 2; i < t; i += 4) {
    const std::size_t other = (i + t / 2) % t;
    slots[i] = slots[other % 4 == 2 ? (other + 1) % t : other];
  }
}

TEST_CASE("A decode step commits its tokens after every row was read, whoever shares a slot",
          "[hash]") {
  const Stream& stream = Gpu::instance().stream;
  const std::int64_t order = GENERATE(2, 4, 8);
  const EngramTables tables = random_tables(3, order, 8);
  for (const std::int64_t t : kTokens) {
    for (const bool reciprocals : {false, true}) {
      StepOptions options;
      options.images = t % 2 == 0;
      EngramStep step = random_step(tables, t, options, 3);
      Values loc;
      alias_padding(step, loc);
      HashCall call(tables, step, t % 3 == 0 ? 0 : kAllWide, reciprocals, loc);
      for (const bool pdl : {true, false}) {
        CAPTURE(order, t, reciprocals, pdl);
        for (int round = 0; round < 5; ++round) {
          call.poison(0xA5);
          call.launch(pdl);
          stream.synchronize();
          REQUIRE(call.difference() == "");
        }
        const Graph graph(stream, [&] { call.launch(pdl); });
        call.poison(0x5A);
        graph.launch(stream);
        stream.synchronize();
        REQUIRE(call.difference() == "");
      }
    }
  }
}

TEST_CASE("A decode step commits on the row counts that the memory checkers run",
          "[hash][sanitize]") {
  const EngramTables tables = random_tables(2, 4, 3);
  for (const std::int64_t t : {1, 3, 33, 129}) {
    EngramStep step = random_step(tables, t, {}, 3);
    Values loc;
    alias_padding(step, loc);
    HashCall call(tables, step, kAllWide, true, loc);
    call.poison(0xA5);
    call.launch();
    Gpu::instance().stream.synchronize();
    CAPTURE(t);
    REQUIRE(call.difference() == "");
  }
}

std::vector<std::int32_t> download_ints(const GuardedBuffer& buffer) {
  const std::vector<std::uint8_t> bytes = buffer.download();
  std::vector<std::int32_t> out(bytes.size() / 4);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST_CASE("engram_commit_history keeps the last tokens of the old row and the accepted ones",
          "[hash][sanitize]") {
  Gpu& gpu = Gpu::instance();
  std::mt19937_64 generator(5);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(limit));
  };
  for (const std::int64_t k : {1, 3, 7}) {
    for (const std::int64_t w : {0, 1, 4, 9}) {
      for (const std::int64_t r : {0, 1, 33, 129}) {
        for (const bool wide : {false, true}) {
          CAPTURE(k, w, r, wide);
          Values ids(static_cast<std::size_t>(r * w));
          std::generate(ids.begin(), ids.end(), [&] { return below(200'000) - 1000; });
          Values slots(static_cast<std::size_t>(r) + 5);
          for (std::size_t i = 0; i < slots.size(); ++i) {
            slots[i] = static_cast<std::int64_t>(i);
          }
          std::shuffle(slots.begin(), slots.end(), generator);
          slots.resize(static_cast<std::size_t>(r));
          Values lens(static_cast<std::size_t>(r));
          std::generate(lens.begin(), lens.end(), [&] { return below(w + 4) - 2; });
          std::vector<std::int32_t> old(static_cast<std::size_t>((r + 5) * k));
          std::generate(old.begin(), old.end(),
                        [&] { return static_cast<std::int32_t>(below(100'000)); });
          const Integers verify_ids(ids, wide);
          const Integers req_slots(slots, !wide);
          const Integers commit_lens(lens, wide);
          const GuardedBuffer history(old.size() * 4);
          const auto restore = [&] {
            KILN_CU(cuMemcpyHtoD, reinterpret_cast<CUdeviceptr>(history.data()), old.data(),
                    old.size() * 4);
            KILN_CU(cuCtxSynchronize);
          };
          const auto launch = [&] {
            gpu.engine.launch(
                "engram_commit_history",
                {Tensor(history.data(), DType::kI32, {r + 5, k}), verify_ids.tensor({r, w}),
                 req_slots.tensor({r}), commit_lens.tensor({r})},
                gpu.stream.get());
          };
          const std::vector<std::int32_t> want =
              reference::engram_commit_history(k, old, ids, slots, lens);
          restore();
          launch();
          gpu.stream.synchronize();
          REQUIRE(history.canaries_intact());
          REQUIRE(download_ints(history) == want);
          if (r > 0) {
            const Graph graph(gpu.stream, launch);
            restore();
            graph.launch(gpu.stream);
            gpu.stream.synchronize();
            REQUIRE(history.canaries_intact());
            REQUIRE(download_ints(history) == want);
          }
        }
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Reciprocals

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
    const unsigned long long p = (state >> (1 + (thread + divisor) % 63)) | 1;
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

/// Runs `record` eagerly and as a replayed graph, `reset` before and `check` after each.
void eagerly_and_replayed(const std::function<void()>& reset, const std::function<void()>& record,
                          const std::function<void()>& check) {
  const Stream& stream = Gpu::instance().stream;
  for (int round = 0; round < 10; ++round) {
    reset();
    record();
    stream.synchronize();
    check();
  }
  const Graph graph(stream, record);
  for (int round = 0; round < 10; ++round) {
    reset();
    graph.launch(stream);
    stream.synchronize();
    check();
  }
}

TEST_CASE("The hashes wait for their producer, and the next kernel for them", "[pdl]") {
  const bool commits = GENERATE(false, true);
  const std::int64_t t = GENERATE(1, 8, 130, 3000);
  CAPTURE(commits, t);
  const EngramTables tables = random_tables(3, 4, 8);
  EngramStep step = random_step(tables, t, {});
  Values loc;
  if (commits) {
    alias_padding(step, loc);
  }
  const HashCall call(tables, step, kAllWide, true, loc);
  const Integers wanted(step.input_ids, true);
  const Integers others(Values(step.input_ids.size(), 3), true);
  const Buffer copied(call.ids().bytes());
  eagerly_and_replayed(
      [&] {
        call.input_ids().set(Values(step.input_ids.size(), 4999));
        call.poison(0xA5);
      },
      [&] {
        late_copy(call.ids().data(), copied.data(), copied.bytes(), kDelayNs);
        late_copy(wanted.data(), call.input_ids().data(), wanted.bytes(), kDelayNs);
        call.launch();
        late_copy(others.data(), call.input_ids().data(), others.bytes(), 0);
      },
      [&] {
        REQUIRE(call.difference() == "");
        std::vector<std::uint8_t> old(copied.bytes());
        copied.download(old.data(), old.size());
        REQUIRE(std::all_of(old.begin(), old.end(), [](std::uint8_t b) { return b == 0xA5; }));
      });
}

TEST_CASE("Steps that commit one after the other each see the history of the one before", "[pdl]") {
  const std::int64_t t = GENERATE(1, 8, 130, 3000);
  CAPTURE(t);
  const EngramTables tables = random_tables(2, 4, 8);
  EngramStep step = random_step(tables, t, {});
  const HashCall call(tables, step, kAllWide, true, Values(step.input_ids.size(), 1));
  const auto hashed = [&] { return reference::engram_hash_ids(tables, step); };
  // The same step twice, on the history that the first left.
  step.history = reference::commit_decoded(4, step.history, hashed().tokens, *step.req_slots,
                                           Values(step.input_ids.size(), 1));
  HashCall want(tables, step, kAllWide, true, Values(step.input_ids.size(), 1));
  want.poison(0xA5);
  want.launch();
  Gpu::instance().stream.synchronize();
  REQUIRE(want.difference() == "");
  eagerly_and_replayed([&] { call.poison(0xA5); },
                       [&] {
                         call.launch();
                         call.launch();
                       },
                       [&] { REQUIRE(call.ids().download() == want.ids().download()); });
}

TEST_CASE("Fresh tables are read after the wait when the call says so", "[pdl]") {
  const bool reciprocals = false;  // They are worked out from the late primes.
  const EngramTables tables = random_tables(3, 4, 8);
  const EngramStep step = random_step(tables, 40, {});
  const HashCall call(tables, step, kAllWide, reciprocals);
  const Buffer primes(call.primes().bytes());
  eagerly_and_replayed(
      [&] {
        primes.fill(0x11);
        call.poison(0xA5);
      },
      [&] {
        late_copy(call.primes().data(), primes.data(), primes.bytes(), kDelayNs);
        call.launch(true, "", &primes);
      },
      [&] { REQUIRE(call.difference() == ""); });
}

}  // namespace
}  // namespace kiln::gpu
