// docs/kernel_contracts.md, sections 5 and 6: flashmla_sched_meta against the walk of the CPU
// reference, word for word.
#include "reference/sched_meta.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

using Words = std::vector<std::int32_t>;

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// Room for the largest schedule of a test, used again for every case of it.
class Call {
 public:
  Call(std::int64_t most_requests, std::int64_t most_partitions)
      : lengths_{Buffer(size(most_requests) * 4 + 4), Buffer(size(most_requests) * 4 + 4),
                 Buffer(size(most_requests) * 4 + 4)},
        meta_(size(most_partitions) * 32),
        splits_(size(most_requests) * 4 + 4) {}

  void set(const reference::ScheduleInput& input) const {
    upload(0, input.topk_length);
    upload(1, input.extra_topk_length);
    upload(2, input.seqlens_k);
    meta_.poison(0xA5);
    splits_.poison(0xA5);
  }
  void launch(const reference::ScheduleInput& input, bool pdl) const {
    Gpu& gpu = Gpu::instance();
    LaunchOptions options;
    options.pdl = pdl;
    const Tensor meta(meta_.data(), DType::kI32, {input.partitions, 8});
    const Tensor splits(splits_.data(), DType::kI32, {input.requests + 1});
    const Tensor topk = lengths(0, input.requests);
    const Tensor extra = lengths(1, input.requests);
    const Tensor dense = lengths(2, input.requests);
    gpu.engine.launch(
        "flashmla_sched_meta",
        {meta, splits, input.topk_length ? Arg(topk) : Arg(),
         input.extra_topk_length ? Arg(extra) : Arg(), input.seqlens_k ? Arg(dense) : Arg(),
         input.block_size, input.overhead, input.topk, input.extra_topk},
        gpu.stream.get(), options);
  }
  std::string difference(const reference::ScheduleInput& input) const {
    const reference::Schedule want = reference::flashmla_sched_meta(input);
    const std::string problem = difference("meta", meta_, want.meta);
    return problem.empty() ? difference("num_splits", splits_, want.num_splits) : problem;
  }
  std::string run(const reference::ScheduleInput& input, bool pdl = true) const {
    set(input);
    launch(input, pdl);
    Gpu::instance().stream.synchronize();
    return difference(input);
  }
  bool canaries_intact() const { return meta_.canaries_intact() && splits_.canaries_intact(); }
  void* seqlens_k() const { return static_cast<char*>(lengths_[2].data()) + 4; }

 private:
  // One element off any larger alignment.
  void upload(std::size_t which, const std::optional<Words>& values) const {
    if (values) {
      KILN_CU(cuMemcpyHtoD, lengths_[which].address() + 4, values->data(), values->size() * 4);
    }
  }
  Tensor lengths(std::size_t which, std::int64_t requests) const {
    return {static_cast<char*>(lengths_[which].data()) + 4, DType::kI32, {requests}};
  }
  static std::string difference(const char* name, const GuardedBuffer& buffer, const Words& want) {
    Words got(want.size());
    KILN_CU(cuMemcpyDtoH, got.data(), reinterpret_cast<CUdeviceptr>(buffer.data()), got.size() * 4);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != want[i]) {
        return std::string(name) + "[" + std::to_string(i) + "]: got " + std::to_string(got[i]) +
               ", want " + std::to_string(want[i]);
      }
    }
    return "";
  }

  Buffer lengths_[3];
  GuardedBuffer meta_, splits_;
};

/// A random case: dense and sparse, lengths of all sizes with many zeros, an extra cache or none.
reference::ScheduleInput random_input(std::uint64_t seed, std::int64_t most_requests) {
  std::mt19937_64 generator(seed);
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(end));
  };
  reference::ScheduleInput input{};
  input.requests = below(3) == 0 ? 1 + below(4) : 1 + below(below(2) == 0 ? 300 : most_requests);
  input.requests = std::min(input.requests, most_requests);
  input.partitions = 1 + below(264);
  input.block_size = below(2) == 0 ? 64 : 1 + below(128);
  input.overhead = below(3) == 0 ? below(40) : 5;
  const std::int64_t longest = std::vector<std::int64_t>{1, 5, 200, 5000, 131'072}[size(below(5))];
  const bool equal = below(4) == 0;
  const auto draw = [&] {
    Words lengths(size(input.requests));
    std::generate(lengths.begin(), lengths.end(), [&] {
      return static_cast<std::int32_t>(below(8) == 0 ? 0 : equal ? longest : below(longest + 1));
    });
    return lengths;
  };
  input.topk = below(2) == 0 ? -1 : below(3) == 0 ? below(500) : 2048;
  if (input.topk == -1 || below(2) == 0) {
    input.seqlens_k = draw();
  }
  if (below(2) == 0) {
    input.topk_length = draw();
  }
  input.extra_topk = below(2) == 0 ? 0 : 1 + below(600);
  if (below(2) == 0) {
    input.extra_topk_length = draw();
  }
  return input;
}

TEST_CASE("Schedules of every number of requests equal the walk's", "[schedule]") {
  const Call call(4097, 264);
  for (const std::int64_t requests : {1,  2,  3,  5,  6,   7,   8,   9,    31,   32,   33,
                                      48, 64, 96, 97, 127, 128, 129, 1000, 4095, 4096, 4097}) {
    for (const std::int64_t partitions : {1, 2, 31, 132, 264}) {
      reference::ScheduleInput input = random_input(size(requests + partitions), 1);
      input.requests = requests;
      input.partitions = partitions;
      input.topk = -1;
      input.seqlens_k = Words(size(requests));
      for (std::size_t i = 0; i < input.seqlens_k->size(); ++i) {
        (*input.seqlens_k)[i] = static_cast<std::int32_t>(i * 7919 % 20'000);
      }
      input.topk_length.reset();
      input.extra_topk_length.reset();
      CAPTURE(requests, partitions);
      REQUIRE(call.run(input, true) == "");
      REQUIRE(call.run(input, false) == "");
    }
  }
  REQUIRE(call.canaries_intact());
}

TEST_CASE("Random schedules equal the walk's", "[schedule]") {
  // KILN_SCHEDULE_CASES asks for more, as a GPU session does for 100,000.
  const char* const asked = std::getenv("KILN_SCHEDULE_CASES");
  const std::uint64_t cases = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 4000;
  const Call call(4096, 264);
  for (std::uint64_t seed = 0; seed < cases; ++seed) {
    const reference::ScheduleInput input = random_input(seed, 4096);
    CAPTURE(seed, input.requests, input.partitions, input.block_size, input.overhead, input.topk,
            input.extra_topk);
    REQUIRE(call.run(input, seed % 8 != 0) == "");
  }
  REQUIRE(call.canaries_intact());
}

TEST_CASE("Positions of a request and its extra may pass 2^31, where its blocks do not",
          "[schedule]") {
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const Call call(3, 132);
  for (const std::int64_t requests : {1, 3}) {
    for (const auto& [block, topk, extra] :
         std::vector<std::array<std::int64_t, 3>>{{64, most, 64},
                                                  {64, most - 63, most},
                                                  {1000, most, most},
                                                  {most, 1, 1},
                                                  {most, most, most}}) {
      reference::ScheduleInput input{requests, 132, block, 5, topk, extra};
      CAPTURE(requests, block, topk, extra);
      REQUIRE(call.run(input) == "");
      const auto largest = static_cast<std::int32_t>(most);
      input.topk_length = Words{largest, 0, largest};
      input.extra_topk_length = Words{0, largest, largest};
      input.topk_length->resize(size(requests));
      input.extra_topk_length->resize(size(requests));
      REQUIRE(call.run(input) == "");
    }
  }
  REQUIRE(call.canaries_intact());
}

TEST_CASE("Small schedules stay inside their arrays", "[schedule][sanitize]") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const reference::ScheduleInput input = random_input(seed, 300);
    const Call call(input.requests, input.partitions);
    CAPTURE(seed, input.requests, input.partitions);
    REQUIRE(call.run(input) == "");
    REQUIRE(call.canaries_intact());
  }
}

TEST_CASE("A schedule of tens of thousands of requests takes the device's larger shared memory",
          "[schedule]") {
  const Call call(50'000, 1500);
  for (const std::int64_t requests : {12'000, 50'000}) {
    reference::ScheduleInput input{requests, 1500, 64, 5};
    input.seqlens_k = Words(size(requests));
    for (std::size_t i = 0; i < input.seqlens_k->size(); ++i) {
      (*input.seqlens_k)[i] = static_cast<std::int32_t>(i * 31 % 3000);
    }
    CAPTURE(requests);
    REQUIRE(call.run(input) == "");
  }
  reference::ScheduleInput input{60'000, 1, 64, 5};
  input.seqlens_k = Words(60'000);
  REQUIRE_THROWS_AS(Call(60'000, 1).launch(input, true), Error);
}

TEST_CASE("A schedule replays from a graph on lengths that change, and waits for them",
          "[schedule][pdl]") {
  Gpu& gpu = Gpu::instance();
  const std::int64_t requests = GENERATE(1, 33, 1000);
  reference::ScheduleInput input{requests, 132, 64, 5};
  const Call call(requests, 132);
  input.seqlens_k = Words(size(requests), 999);
  call.set(input);
  const std::size_t bytes = size(requests) * 4;
  const Buffer source(bytes);
  const Buffer other(bytes);
  other.fill(0x3C);
  const auto record = [&] {
    late_copy(source.data(), call.seqlens_k(), bytes, kDelayNs);
    call.launch(input, true);
    late_copy(other.data(), call.seqlens_k(), bytes, 0);
  };
  source.upload(input.seqlens_k->data(), bytes);
  record();
  gpu.stream.synchronize();
  REQUIRE(call.difference(input) == "");
  const Graph graph(gpu.stream, record);
  for (int i = 0; i < 10; ++i) {
    for (std::int32_t& length : *input.seqlens_k) {
      length = length * 13 % 4001 + i;
    }
    call.set(input);
    source.upload(input.seqlens_k->data(), bytes);
    graph.launch(gpu.stream);
    gpu.stream.synchronize();
    CAPTURE(requests, i);
    REQUIRE(call.difference(input) == "");
  }
}

}  // namespace
}  // namespace kiln::gpu
