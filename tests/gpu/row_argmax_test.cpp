// docs/kernel_contracts.md, sections 3 and 6: row_argmax, against the CPU reference.
#include "reference/row_argmax.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kRowCounts[] = {1,  2,  3,  5,  6,  7,  8,   9,    31,
                                       32, 33, 48, 64, 96, 97, 133, 1000, 4097};

/// Rows of n elements on the host; device rows lie `gap` further apart and begin `offset` elements
/// off the largest alignment. The gap holds NaN, which would win.
class Rows {
 public:
  Rows(std::int64_t rows, std::int64_t n, std::int64_t gap, std::int64_t offset)
      : rows_(rows),
        n_(n),
        stride_(n + gap),
        offset_(offset),
        host_(static_cast<std::size_t>(offset + rows * stride_ + 8), kNan),
        device_(host_.size() * 4),
        out_(static_cast<std::size_t>(rows) * 8),
        workspace_(workspace_bytes()) {}

  float* row(std::int64_t index) { return host_.data() + offset_ + index * stride_; }
  std::int64_t n() const { return n_; }
  std::int64_t rows() const { return rows_; }
  const Buffer& device() const { return device_; }
  const GuardedBuffer& out() const { return out_; }

  void draw(float magnitude, std::uint64_t seed) {
    std::mt19937_64 generator(seed);
    std::normal_distribution<float> normal(0.0F, 1.0F);
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::generate_n(row(i), n_, [&] { return normal(generator) * magnitude; });
    }
  }
  void fill(float value) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::fill_n(row(i), n_, value);
    }
  }
  void upload() const { device_.upload(host_.data(), host_.size() * 4); }

  void launch(bool pdl) const {
    Gpu& gpu = Gpu::instance();
    LaunchOptions options;
    options.pdl = pdl;
    options.workspace = workspace_.data();
    options.workspace_bytes = workspace_.bytes();
    gpu.engine.launch("row_argmax", {x(), out_tensor()}, gpu.stream.get(), options);
  }
  const Buffer& workspace() const { return workspace_; }

  std::vector<std::int64_t> expected() { return reference::row_argmax(row(0), stride_, rows_, n_); }

  /// What is wrong with the output, given what is expected; empty when nothing.
  std::string difference(const std::vector<std::int64_t>& want) const {
    if (!out_.canaries_intact()) {
      return "a canary beside the output was overwritten";
    }
    std::vector<std::int64_t> got(static_cast<std::size_t>(rows_));
    const std::vector<std::uint8_t> bytes = out_.download();
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<std::uint8_t*>(got.data()));
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] != want[i]) {
        return "row " + std::to_string(i) + ": got " + std::to_string(got[i]) + ", want " +
               std::to_string(want[i]);
      }
    }
    return "";
  }

  /// Launches on what the host rows hold and says what is wrong with the result.
  std::string run(bool pdl) {
    Gpu& gpu = Gpu::instance();
    const std::vector<std::int64_t> want = expected();
    upload();
    out_.poison(0xA5);
    workspace_.fill(0xFF);  // As the best key there is would look.
    launch(pdl);
    gpu.stream.synchronize();
    return difference(want);
  }

 private:
  Tensor x() const {
    return {static_cast<float*>(device_.data()) + offset_, DType::kF32, {rows_, n_}, {stride_, 1}};
  }
  Tensor out_tensor() const { return {out_.data(), DType::kI64, {rows_}}; }
  std::size_t workspace_bytes() const {
    Gpu& gpu = Gpu::instance();
    const Tensor in = x();
    const Tensor out = out_tensor();
    const std::vector<Arg> args = {in, out};
    return gpu.engine.workspace_bytes(gpu.engine.op("row_argmax"), args);
  }

  std::int64_t rows_;
  std::int64_t n_;
  std::int64_t stride_;
  std::int64_t offset_;
  std::vector<float> host_;
  Buffer device_;
  GuardedBuffer out_;
  Buffer workspace_;
};

std::string run_both(Rows& rows) {
  const std::string with = rows.run(true);
  return with.empty() ? rows.run(false) : "PDL: " + with;
}

TEST_CASE("row_argmax agrees with the reference at every row count and magnitude",
          "[speculative]") {
  const float magnitude = GENERATE(1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F);
  CAPTURE(magnitude);
  for (const std::int64_t count : kRowCounts) {
    const std::int64_t n = count <= 97 ? 20'011 : 1'003;
    for (const std::int64_t gap : {0, 5}) {
      Rows rows(count, n, gap, 0);
      rows.draw(magnitude, static_cast<std::uint64_t>(count));
      CAPTURE(count, gap);
      REQUIRE(run_both(rows) == "");
    }
  }
}

TEST_CASE("row_argmax takes every width, from every alignment of a row", "[speculative]") {
  for (const std::int64_t n :
       {1,  2,  3,   4,     5,     7,      8,      9,      15,      16,      17,
        31, 33, 127, 1'000, 4'095, 16'384, 16'391, 32'768, 129'280, 262'144, 1'000'003}) {
    for (std::int64_t offset = 0; offset < 8; ++offset) {
      for (const std::int64_t count : {1, 3, 20}) {
        if (count == 20 && (offset > 1 || n > 300'000)) {
          continue;
        }
        Rows rows(count, n, offset, offset);
        rows.draw(1.0F, static_cast<std::uint64_t>(n + offset));
        CAPTURE(n, offset, count);
        REQUIRE(run_both(rows) == "");
      }
    }
  }
}

TEST_CASE("row_argmax is right on what the memory checkers run", "[speculative][sanitize]") {
  for (const std::int64_t count : {1, 3, 33, 129}) {
    for (const std::int64_t n : {1, 37, 4'099, 40'001}) {
      Rows rows(count, n, 1, 1);
      rows.draw(1.0F, 3);
      CAPTURE(count, n);
      REQUIRE(rows.run(true) == "");
    }
  }
}

TEST_CASE("row_argmax finds the first of equal maxima wherever the others lie", "[speculative]") {
  // Positions on both sides of the borders between vectors, warps, parts and batches; with offset 0
  // the parts of a cluster of 16 end at 8,084, 16,168 and so on. In the second case they end at
  // 16,388, two batches of 8,192 and a rest; in the third, without clusters, at 15,152.
  struct Case {
    std::int64_t n;
    std::vector<std::int64_t> positions;
  };
  const Case cases[] = {
      {129'280, {0,      1,      2,      3,      4,      7,      8,      127,     128,    2'047,
                 2'048,  2'049,  4'095,  4'096,  8'083,  8'084,  8'085,  16'167,  16'168, 16'383,
                 16'384, 16'385, 32'767, 32'768, 65'535, 65'536, 98'304, 129'278, 129'279}},
      {262'144, {0, 8'189, 8'192, 16'381, 16'384, 16'385, 16'388, 131'072, 262'143}},
      {1'000'003, {0, 8'189, 8'192, 15'149, 15'151, 15'152, 500'000, 999'999, 1'000'002}}};
  const auto& [n, positions] = cases[GENERATE(0U, 1U, 2U)];
  const std::int64_t offset = GENERATE(0, 1, 3);
  const float most = GENERATE(5.0F, kInf, 0.0F, 1e-44F);
  CAPTURE(n, offset, most);
  const auto count = static_cast<std::int64_t>(positions.size() - 1);
  Rows rows(count, n, 3, offset);
  rows.fill(most == 0.0F ? -1.0F : -kInf);
  for (std::int64_t i = 0; i < count; ++i) {
    rows.row(i)[positions[static_cast<std::size_t>(i)]] = most == 0.0F ? -0.0F : most;
    for (auto later = positions.begin() + i + 1; later != positions.end(); ++later) {
      rows.row(i)[*later] = most;
    }
  }
  REQUIRE(rows.expected() == std::vector<std::int64_t>(positions.begin(), positions.end() - 1));
  REQUIRE(run_both(rows) == "");
}

TEST_CASE("row_argmax gives the first NaN, also after +inf and whatever its bits",
          "[speculative]") {
  const std::int64_t n = GENERATE(40, 5'003, 129'280, 262'144, 1'000'003);
  CAPTURE(n);
  const float negative_nan = std::copysign(kNan, -1.0F);
  const std::vector<std::int64_t> at = {0, 1, 3, 4, 17, n / 2, n - 2, n - 1};
  Rows rows(static_cast<std::int64_t>(at.size()) * 2, n, 3, 1);
  rows.draw(1.0F, 5);
  for (std::size_t i = 0; i < at.size(); ++i) {
    for (const std::size_t half : {std::size_t{0}, at.size()}) {
      float* const row = rows.row(static_cast<std::int64_t>(i + half));
      row[n - 1] = kNan;
      row[n / 3] = i % 2 == 0 ? kInf : row[n / 3];
      row[at[i]] = half == 0 ? kNan : negative_nan;
    }
  }
  REQUIRE(run_both(rows) == "");
}

TEST_CASE("row_argmax gives 0 for rows of -inf, among rows that are not", "[speculative]") {
  for (const std::int64_t n : {1, 5, 1'000, 129'280, 262'144, 1'000'003}) {
    for (const std::int64_t offset : {0, 1, 2, 3}) {
      if (offset > 1 && n > 200'000) {
        continue;  // The rows of one launch begin at every offset from 16 bytes.
      }
      Rows rows(6, n, n % 2 == 0 ? 1 : 2, offset);
      rows.draw(1.0F, 7);
      std::fill_n(rows.row(0), n, -kInf);
      std::fill_n(rows.row(3), n, -kInf);
      rows.row(3)[n - 1] = std::numeric_limits<float>::lowest();
      std::fill_n(rows.row(5), n, 0.0F);
      CAPTURE(n, offset);
      REQUIRE(run_both(rows) == "");
    }
  }
}

TEST_CASE("row_argmax takes any bits at all", "[speculative]") {
  Rows rows(40, 3'001, 0, 0);
  std::mt19937 generator(11);
  for (std::int64_t i = 0; i < rows.rows(); ++i) {
    for (std::int64_t j = 0; j < rows.n(); ++j) {
      auto bits = static_cast<std::uint32_t>(generator());
      // Mostly numbers: else every row would be decided by a NaN near its start.
      bits = i % 2 == 0 && (bits & 0x7F80'0000U) == 0x7F80'0000U ? bits & 0xFF00'0000U : bits;
      std::copy_n(reinterpret_cast<const std::uint8_t*>(&bits), 4,
                  reinterpret_cast<std::uint8_t*>(rows.row(i) + j));
    }
  }
  REQUIRE(run_both(rows) == "");
}

TEST_CASE("A row's index does not depend on the rows beside it", "[speculative]") {
  // A few values, so that every row has many equal maxima.
  const std::int64_t n = 50'000;
  Rows all(64, n, 0, 0);
  std::mt19937 generator(13);
  for (std::int64_t i = 0; i < all.rows(); ++i) {
    std::generate_n(all.row(i), n, [&] { return static_cast<float>(generator() % 3 == 0); });
    std::fill_n(all.row(i), 700 * i, -1.0F);
  }
  REQUIRE(all.run(true) == "");
  for (const std::int64_t i : {0, 1, 31, 63}) {
    Rows alone(1, n, 0, 0);
    std::copy_n(all.row(i), n, alone.row(0));
    CAPTURE(i);
    REQUIRE(alone.run(true) == "");
  }
}

TEST_CASE("row_argmax replays from a graph on inputs that change between replays",
          "[speculative]") {
  Gpu& gpu = Gpu::instance();
  const std::pair<std::int64_t, std::int64_t> shapes[] = {
      {1, 20'011}, {6, 20'011}, {32, 20'011}, {200, 20'011}, {2, 1'000'003}};
  for (const auto& [count, n] : shapes) {
    for (const bool pdl : {true, false}) {
      Rows rows(count, n, 2, 1);
      rows.draw(1.0F, 1);
      REQUIRE(rows.run(pdl) == "");  // Loads the kernel, so that the capture only launches.
      const Graph graph(gpu.stream, [&] { rows.launch(pdl); });
      for (const std::uint64_t seed : {2U, 3U}) {
        rows.draw(1.0F, seed);
        rows.upload();
        rows.out().poison(0x5A);
        graph.launch(gpu.stream);
        gpu.stream.synchronize();
        CAPTURE(count, n, pdl, seed);
        REQUIRE(rows.difference(rows.expected()) == "");
      }
    }
  }
}

TEST_CASE("row_argmax reads rows more than 2^31 elements apart", "[speculative]") {
  Gpu& gpu = Gpu::instance();
  const std::int64_t stride = (std::int64_t{1} << 30) + 1;
  const std::int64_t n = 5'000;
  Rows rows(3, n, 0, 0);
  rows.draw(1.0F, 9);
  const Buffer x(static_cast<std::size_t>(2 * stride + n) * 4);
  for (std::int64_t i = 0; i < 3; ++i) {
    x.upload(rows.row(i), static_cast<std::size_t>(n) * 4,
             static_cast<std::size_t>(i * stride) * 4);
  }
  rows.out().poison(0xA5);
  LaunchOptions options;
  options.workspace = rows.workspace().data();
  options.workspace_bytes = rows.workspace().bytes();
  gpu.engine.launch("row_argmax",
                    {Tensor(x.data(), DType::kF32, {3, n}, {stride, 1}),
                     Tensor(rows.out().data(), DType::kI64, {3})},
                    gpu.stream.get(), options);
  gpu.stream.synchronize();
  REQUIRE(rows.difference(rows.expected()) == "");
}

TEST_CASE("row_argmax of no rows launches nothing and touches nothing", "[speculative][sanitize]") {
  Rows rows(0, 40, 0, 0);
  REQUIRE(rows.run(true) == "");
}

TEST_CASE("row_argmax waits for a late producer, and its reader's reader may overwrite its input",
          "[pdl]") {
  Gpu& gpu = Gpu::instance();
  const auto [count, n] = GENERATE(table<std::int64_t, std::int64_t>(
      {{1, 3'004}, {8, 3'004}, {130, 3'004}, {2, 1'000'003}}));  // The last one: two kernels.
  CAPTURE(count, n);
  Rows first(count, n, 0, 0);
  Rows second(count, n, 0, 0);
  first.draw(1.0F, 1);
  second.draw(1.0F, 2);
  first.upload();
  second.upload();
  const std::vector<std::int64_t> want = first.expected();
  const Rows work(count, n, 0, 0);
  const Buffer copied(work.out().bytes());
  const auto record = [&] {
    late_copy(first.device().data(), work.device().data(), first.device().bytes(), kDelayNs);
    work.launch(true);
    late_copy(second.device().data(), work.device().data(), second.device().bytes(), 0);
    late_copy(work.out().data(), copied.data(), copied.bytes(), 0);
  };
  const auto check = [&] {
    gpu.stream.synchronize();
    REQUIRE(work.difference(want) == "");
    std::vector<std::int64_t> got(want.size());
    copied.download(got.data(), copied.bytes());
    REQUIRE(got == want);
  };
  const auto reset = [&] {
    work.device().fill(0xFF);
    work.out().poison(0xA5);
    copied.fill(0);
  };
  for (int round = 0; round < 10; ++round) {
    reset();
    record();
    check();
  }
  const Graph graph(gpu.stream, record);
  for (int round = 0; round < 10; ++round) {
    reset();
    graph.launch(gpu.stream);
    check();
  }
}

}  // namespace
}  // namespace kiln::gpu
