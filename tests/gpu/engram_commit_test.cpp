// docs/kernel_contracts.md, sections 4 and 6: engram_commit_history, bit for bit against the CPU
// reference, and the two kernels that commit to histories on more requests than 32 bits can number
// threads of.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "reference/engram_hash.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/integers.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/replayed.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

using Values = std::vector<std::int64_t>;

constexpr std::int64_t kSpareRows = 5;  // Of history, which no request has.

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// r requests, whose histories are of k tokens and whose verified rows of w, at random.
struct Requests {
  Requests(std::int64_t count, std::int64_t length, std::int64_t width, std::uint64_t seed = 5)
      : r(count), k(length), w(width) {
    std::mt19937_64 generator(seed);
    const auto draw = [&](auto& values, std::int64_t elements, std::int64_t least,
                          std::int64_t limit) {
      values.resize(size(elements));
      for (auto& value : values) {
        value = static_cast<std::decay_t<decltype(value)>>(
            least + static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(limit)));
      }
    };
    draw(history, (r + kSpareRows) * k, 0, 100'000);
    draw(verify_ids, r * w, -1000, 200'000);
    draw(lens, r, -2, w + 4);
    slots.resize(size(r + kSpareRows));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), generator);
    slots.resize(size(r));
  }
  std::vector<std::int32_t> committed() const {
    return reference::engram_commit_history(k, history, verify_ids, slots, lens);
  }

  std::int64_t r, k, w;
  std::vector<std::int32_t> history;
  Values verify_ids, slots, lens;
};

/// The op's call for such requests.
class CommitCall {
 public:
  CommitCall(const Requests& requests, bool wide_ids, bool wide_slots, bool wide_lens)
      : requests_(requests),
        verify_ids(requests.verify_ids, wide_ids),
        slots(requests.slots, wide_slots),
        lens(requests.lens, wide_lens),
        history(requests.history.size() * sizeof(std::int32_t)) {}

  void launch(bool pdl = true) const {
    Gpu& gpu = Gpu::instance();
    const std::int64_t r = requests_.r;
    LaunchOptions options;
    options.pdl = pdl;
    gpu.engine.launch("engram_commit_history",
                      {Tensor(history.data(), DType::kI32, {r + kSpareRows, requests_.k}),
                       verify_ids.tensor({r, requests_.w}), slots.tensor({r}), lens.tensor({r})},
                      gpu.stream.get(), options);
  }
  void set_history(const std::vector<std::int32_t>& values) const {
    KILN_CU(cuMemcpyHtoD, reinterpret_cast<CUdeviceptr>(history.data()), values.data(),
            history.bytes());
    KILN_CU(cuCtxSynchronize);
  }
  bool history_is(const std::vector<std::int32_t>& want) const {
    const std::vector<std::uint8_t> got = history.download();
    return history.canaries_intact() && got.size() == want.size() * sizeof(std::int32_t) &&
           std::memcmp(got.data(), want.data(), got.size()) == 0;
  }

 private:
  const Requests& requests_;

 public:
  Integers verify_ids, slots, lens;
  GuardedBuffer history;
};

TEST_CASE("engram_commit_history keeps the last tokens of the old row and the accepted ones",
          "[hash][sanitize]") {
  const Stream& stream = Gpu::instance().stream;
  for (const std::int64_t k : {1, 2, 3, 4, 5, 6, 7}) {
    for (const std::int64_t w : {0, 1, 4, 9}) {
      for (const std::int64_t r : {0, 1, 33, 129}) {
        const auto wide = static_cast<unsigned>(k + w + r);  // Each type with each of the others.
        CAPTURE(k, w, r, wide % 8);
        const Requests requests(r, k, w);
        const CommitCall call(requests, (wide & 1U) != 0, (wide & 2U) != 0, (wide & 4U) != 0);
        for (const bool pdl : {true, false}) {
          call.set_history(requests.history);
          call.launch(pdl);
          stream.synchronize();
          REQUIRE(call.history_is(requests.committed()));
          if (r == 0) {
            continue;
          }
          const Graph graph(stream, [&] { call.launch(pdl); });
          const Requests others(r, k, w, 6);
          call.verify_ids.set(others.verify_ids);
          call.slots.set(others.slots);
          call.lens.set(others.lens);
          call.set_history(others.history);
          graph.launch(stream);
          stream.synchronize();
          REQUIRE(call.history_is(others.committed()));
          call.verify_ids.set(requests.verify_ids);
          call.slots.set(requests.slots);
          call.lens.set(requests.lens);
        }
      }
    }
  }
}

TEST_CASE("engram_commit_history waits for its producers, and the next kernel for it", "[pdl]") {
  const std::int64_t r = GENERATE(1, 33, 5000);
  const bool late_lens = GENERATE(false, true);  // Which of the inputs is the last to be written.
  CAPTURE(r, late_lens);
  const Requests wanted(r, 3, 4);
  const CommitCall call(wanted, true, true, true);
  const Integers ids(wanted.verify_ids, true);
  const Integers lens(wanted.lens, true);
  const Integers other_ids(Values(wanted.verify_ids.size(), 3), true);
  const Integers other_lens(Values(wanted.lens.size(), 1), true);
  const GuardedBuffer before(call.history.bytes());
  const GuardedBuffer after(call.history.bytes());
  const auto copy = [](const Integers& from, const Integers& to, std::int64_t delay_ns) {
    late_copy(from.data(), to.data(), from.bytes(), delay_ns);
  };
  const auto holds = [](const GuardedBuffer& buffer, const std::vector<std::int32_t>& want) {
    return std::memcmp(buffer.download().data(), want.data(), buffer.bytes()) == 0;
  };
  eagerly_and_replayed(
      [&] {
        call.verify_ids.set(Values(wanted.verify_ids.size(), 77));
        call.lens.set(Values(wanted.lens.size(), 2));
        call.set_history(wanted.history);
        before.poison(0xA5);
        after.poison(0xA5);
      },
      [&] {
        // Who reads the histories before the op is as late as who writes its inputs.
        late_copy(call.history.data(), before.data(), before.bytes(), kDelayNs);
        if (late_lens) {
          copy(ids, call.verify_ids, 0);
          copy(lens, call.lens, kDelayNs);
        } else {
          copy(lens, call.lens, 0);
          copy(ids, call.verify_ids, kDelayNs);
        }
        call.launch();
        copy(other_ids, call.verify_ids, 0);
        copy(other_lens, call.lens, 0);
        late_copy(call.history.data(), after.data(), after.bytes(), 0);
      },
      [&] {
        REQUIRE(call.history_is(wanted.committed()));
        REQUIRE(holds(before, wanted.history));
        REQUIRE(holds(after, wanted.committed()));
      });
}

TEST_CASE("Commits in a chain of three each see the history of the one before", "[pdl]") {
  const std::int64_t r = GENERATE(1, 33, 5000);
  CAPTURE(r);
  const Requests requests(r, 7, 3);
  const CommitCall call(requests, true, false, true);
  const GuardedBuffer fresh(call.history.bytes());
  KILN_CU(cuMemcpyHtoD, reinterpret_cast<CUdeviceptr>(fresh.data()), requests.history.data(),
          fresh.bytes());
  std::vector<std::int32_t> want = requests.history;
  for (int i = 0; i < 3; ++i) {
    want = reference::engram_commit_history(requests.k, want, requests.verify_ids, requests.slots,
                                            requests.lens);
  }
  eagerly_and_replayed([&] { call.history.poison(0xA5); },
                       [&] {
                         late_copy(fresh.data(), call.history.data(), fresh.bytes(), kDelayNs);
                         call.launch();
                         call.launch();
                         call.launch();
                       },
                       [&] { REQUIRE(call.history_is(want)); });
}

// ---------------------------------------------------------------------------------------------
// More requests than 2^32 / 8, the lanes that each has

constexpr std::int64_t kMany = (std::int64_t{1} << 29) + 3;

Buffer filled(std::int64_t bytes, std::uint8_t byte) {
  Buffer buffer(size(bytes));
  buffer.fill(byte);
  return buffer;
}

// Row numbers from the last one down.
Buffer own_rows() {
  std::vector<std::int32_t> rows(size(kMany));
  std::iota(rows.rbegin(), rows.rend(), 0);
  Buffer buffer(rows.size() * sizeof(std::int32_t));
  buffer.upload(rows.data(), buffer.bytes());
  return buffer;
}

bool all_bytes_are(const GuardedBuffer& buffer, std::uint8_t byte) {
  const std::vector<std::uint8_t> got = buffer.download();
  return buffer.canaries_intact() &&
         std::all_of(got.begin(), got.end(), [&](std::uint8_t b) { return b == byte; });
}

TEST_CASE("engram_commit_history reaches every one of more than 2^29 requests", "[hash]") {
  Gpu& gpu = Gpu::instance();
  const Buffer slots = own_rows();
  const Buffer verify_ids = filled(kMany * 4, 0x07);
  const Buffer lens = filled(kMany * 4, 0x01);  // Far beyond 1, which is all there is.
  const GuardedBuffer history(size(kMany * 4));
  history.poison(0xA5);
  gpu.engine.launch(
      "engram_commit_history",
      {Tensor(history.data(), DType::kI32, {kMany, 1}),
       Tensor(verify_ids.data(), DType::kI32, {kMany, 1}),
       Tensor(slots.data(), DType::kI32, {kMany}), Tensor(lens.data(), DType::kI32, {kMany})},
      gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(all_bytes_are(history, 0x07));
}

TEST_CASE("engram_hash_ids_and_commit hashes and commits more than 2^29 tokens", "[hash]") {
  Gpu& gpu = Gpu::instance();
  const Buffer slots = own_rows();
  const Buffer input_ids = filled(kMany * 4, 0x07);
  const Buffer positions = filled(kMany * 4, 0x00);  // So that the history is blocked.
  const Buffer loc = filled(kMany * 4, 0x01);
  const GuardedBuffer history(size(kMany * 4));
  const GuardedBuffer ids(size(kMany * 8));
  const Buffer tokens(size(kMany * 8));
  history.poison(0xA5);
  ids.poison(0xA5);
  const Buffer token_map = filled(4, 0x00);  // Of one token, whose compressed id is 0.
  const Buffer ones(16);
  const std::int64_t one[] = {1, 1};
  ones.upload(one, sizeof one);
  const Buffer offsets = filled(8, 0x33);
  // The hash is the pad id, 0; its remainder by 1 is 0, too.
  gpu.engine.launch(
      "engram_hash_ids_and_commit",
      {Tensor(input_ids.data(), DType::kI32, {kMany}),
       Tensor(positions.data(), DType::kI32, {kMany}),
       Tensor(history.data(), DType::kI32, {kMany, 1}), Tensor(token_map.data(), DType::kI32, {1}),
       Tensor(ones.data(), DType::kI64, {1, 2}), Tensor(ones.data(), DType::kI64, {1, 1, 1}),
       Tensor(offsets.data(), DType::kI64, {1, 1}), 0, Tensor(slots.data(), DType::kI32, {kMany}),
       Tensor(loc.data(), DType::kI32, {kMany}), Arg(), Arg(), Arg(),
       Tensor(ids.data(), DType::kI64, {kMany, 1, 1}),
       Tensor(tokens.data(), DType::kI32, {kMany, 2})},
      gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(all_bytes_are(history, 0x07));
  REQUIRE(all_bytes_are(ids, 0x33));
}

}  // namespace
}  // namespace kiln::gpu
