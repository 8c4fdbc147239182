// docs/kernel_contracts.md, sections 5 and 6: filter_topk_pages against the CPU reference.
#include "reference/topk_pages.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/support/forced_variant.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

struct Shape {
  std::int64_t rows;
  std::int64_t k;
  std::int64_t width;
  std::int64_t page_size;
  std::int64_t gap = 0;  ///< Elements between the rows of every array.
  unsigned wide = 0;     ///< Bits: indices, page_indices, raw_indices are int64.
  bool raw = true;       ///< raw_indices are wanted.
  std::int64_t more_pages = 0;

  std::int64_t pages() const { return (width + page_size - 1) / page_size + more_pages; }
};

/// Scores of all kinds; indices in the row, at its ends and far outside.
reference::TopkPages random_input(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  const float scores[] = {-kInf, kInf,  std::numeric_limits<float>::quiet_NaN(),
                          0.5F,  -0.5F, std::numeric_limits<float>::lowest()};
  const std::int64_t odd[] = {-1,
                              shape.width,
                              0,
                              shape.width - 1,
                              std::numeric_limits<std::int32_t>::max(),
                              std::numeric_limits<std::int32_t>::min()};
  reference::TopkPages input;
  input.width = shape.width;
  input.k = shape.k;
  input.pages = shape.pages();
  input.page_size = shape.page_size;
  for (std::int64_t i = 0; i < shape.rows * shape.width; ++i) {
    input.scores.push_back(scores[generator() % 6]);
  }
  for (std::int64_t i = 0; i < shape.rows * shape.k; ++i) {
    input.indices.push_back(
        generator() % 4 == 0
            ? odd[generator() % 6]
            : static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(shape.width)));
  }
  if ((shape.wide & 1U) != 0 && !input.indices.empty()) {
    input.indices[0] = std::int64_t{1} << 32;  // 0, were it cut to 32 bits.
  }
  for (std::int64_t i = 0; i < shape.rows * shape.pages(); ++i) {
    input.page_table.push_back(generator() % 4 == 0 ? std::numeric_limits<std::int32_t>::max()
                                                    : static_cast<int>(generator() % 100'000));
  }
  return input;
}

/// Rows of elements on the device, natural alignment and no more, 0xA5 between them.
class Rows {
 public:
  Rows(std::int64_t rows, std::int64_t columns, std::int64_t gap, DType dtype)
      : rows_(rows),
        columns_(columns),
        stride_(columns + gap),
        dtype_(dtype),
        buffer_(size((rows * stride_ + 1) * dtype_size(dtype))) {}

  template <class T>
  void set(const std::vector<T>& values) const {
    std::vector<std::uint8_t> bytes = image(values);
    if (!bytes.empty()) {
      KILN_CU(cuMemcpyHtoD, reinterpret_cast<CUdeviceptr>(data()), bytes.data(), bytes.size());
    }
  }
  void poison() const { buffer_.poison(0xA5); }
  /// Whether the rows hold these values and nothing else was written.
  template <class T>
  std::string difference(const char* name, const std::vector<T>& values) const {
    if (!buffer_.canaries_intact()) {
      return std::string("a canary beside ") + name + " was overwritten";
    }
    std::vector<std::uint8_t> got = buffer_.download();
    got.erase(got.begin(), got.begin() + dtype_size(dtype_));
    const std::vector<std::uint8_t> want = image(values);
    for (std::size_t i = 0; i < want.size(); ++i) {
      if (got[i] != want[i]) {
        return std::string(name) + " differs at byte " + std::to_string(i);
      }
    }
    return "";
  }
  Tensor tensor() const { return {data(), dtype_, {rows_, columns_}, {stride_, 1}}; }
  void* data() const { return static_cast<char*>(buffer_.data()) + dtype_size(dtype_); }
  std::size_t bytes() const { return size(rows_ * stride_ * dtype_size(dtype_)); }

 private:
  template <class T>
  std::vector<std::uint8_t> image(const std::vector<T>& values) const {
    const auto element = size(dtype_size(dtype_));
    std::vector<std::uint8_t> out(bytes(), 0xA5);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = i / size(columns_);
      const T value = values[i];  // Little-endian, so the lower bytes come first.
      std::memcpy(out.data() + (row * size(stride_) + i % size(columns_)) * element, &value,
                  element);
    }
    return out;
  }

  std::int64_t rows_, columns_, stride_;
  DType dtype_;
  GuardedBuffer buffer_;
};

class Call {
 public:
  explicit Call(const Shape& shape)
      : shape_(shape),
        scores_(shape.rows, shape.width, shape.gap, DType::kF32),
        indices_(shape.rows, shape.k, shape.gap, type(1)),
        table_(shape.rows, shape.pages(), shape.gap, DType::kI32),
        pages_(shape.rows, shape.k, shape.gap, type(2)),
        raw_(shape.rows, shape.k, shape.gap, type(4)) {}

  void set(const reference::TopkPages& input) const {
    scores_.set(input.scores);
    indices_.set(input.indices);
    table_.set(input.page_table);
    pages_.poison();
    raw_.poison();
    KILN_CU(cuCtxSynchronize);
  }
  void launch(bool pdl, const std::string& op = "filter_topk_pages") const {
    Gpu& gpu = Gpu::instance();
    LaunchOptions options;
    options.pdl = pdl;
    const Tensor raw = raw_.tensor();
    gpu.engine.launch(op,
                      {scores_.tensor(), indices_.tensor(), table_.tensor(), pages_.tensor(),
                       shape_.page_size, shape_.raw ? Arg(raw) : Arg()},
                      gpu.stream.get(), options);
  }
  std::string difference(const reference::TopkPages& input) const {
    const reference::FilteredPages want = reference::filter_topk_pages(input);
    const std::string problem = pages_.difference("page_indices", want.page_indices);
    return !problem.empty() || !shape_.raw ? problem
                                           : raw_.difference("raw_indices", want.raw_indices);
  }
  std::string run(std::uint64_t seed, bool pdl, const std::string& op = "filter_topk_pages") const {
    const reference::TopkPages input = random_input(shape_, seed);
    set(input);
    launch(pdl, op);
    Gpu::instance().stream.synchronize();
    return difference(input);
  }

  const Rows& scores() const { return scores_; }

 private:
  DType type(unsigned bit) const { return (shape_.wide & bit) != 0 ? DType::kI64 : DType::kI32; }

  Shape shape_;
  Rows scores_, indices_, table_, pages_, raw_;
};

TEST_CASE("Selected positions become pages at every row count, whatever the widths of the indices",
          "[pages]") {
  for (const std::int64_t rows :
       {1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097}) {
    const Shape shape{rows,     rows > 97 ? 65 : 700,           1003, 64,
                      rows % 3, static_cast<unsigned>(rows % 8)};
    CAPTURE(rows);
    const Call call(shape);
    REQUIRE(call.run(size(rows), true) == "");
    REQUIRE(call.run(size(rows), false) == "");
  }
}

TEST_CASE("Every combination of index types, page sizes and strides agrees with the reference",
          "[pages][sanitize]") {
  for (unsigned wide = 0; wide < 8; ++wide) {
    for (const std::int64_t page_size : {1, 7, 64, 1000, 5000}) {
      for (const bool raw : {true, false}) {
        const Shape shape{3, 300, 2003, page_size, page_size % 4, wide, raw, wide % 2};
        CAPTURE(wide, page_size, raw);
        REQUIRE(Call(shape).run(wide, true) == "");
      }
    }
  }
}

TEST_CASE("CTAs of every width give the same pages", "[pages][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const OpHandle original = gpu.engine.op("filter_topk_pages");
  std::size_t count = 0;
  for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
    if (variant.traits[kPdlTrait] == 0) {
      continue;
    }
    const Op forced = forced_variant(original.op(), variant.traits, std::to_string(count++));
    gpu.engine.register_op(forced);
    for (const std::int64_t k : {1, 31, 32, 33, 63, 64, 65, 255, 256, 257, 2048}) {
      CAPTURE(to_string(variant), k);
      REQUIRE(Call({5, k, 4096, 64}).run(size(k), true, forced.name) == "");
    }
  }
  REQUIRE(count == 3);
}

TEST_CASE("The timed shapes agree with the reference", "[pages]") {
  REQUIRE(Call({1, 2048, 131'072, 64}).run(1, true) == "");
  REQUIRE(Call({64, 2048, 131'072, 64, 0, 7}).run(2, true) == "");
  REQUIRE(Call({256, 2048, 9000, 64, 0, 1}).run(3, true) == "");
}

TEST_CASE("A page table that is one short is refused before the launch", "[pages]") {
  Shape shape{1, 4, 129, 64};
  REQUIRE(shape.pages() == 3);
  REQUIRE(Call(shape).run(1, true) == "");
  shape.more_pages = -1;
  REQUIRE_THROWS_AS(Call(shape).launch(true), Error);
}

TEST_CASE("No rows and no positions launch nothing", "[pages][sanitize]") {
  REQUIRE(Call({0, 16, 64, 8}).run(1, true) == "");
  REQUIRE(Call({3, 0, 64, 8}).run(1, true) == "");
}

TEST_CASE("One page table may serve all rows", "[pages]") {
  Gpu& gpu = Gpu::instance();
  const Shape shape{3, 300, 2003, 64};
  reference::TopkPages input = random_input(shape, 8);
  const std::vector<std::int32_t> one(input.page_table.begin(),
                                      input.page_table.begin() + shape.pages());
  for (std::size_t i = 0; i < input.page_table.size(); ++i) {
    input.page_table[i] = one[i % one.size()];
  }
  const Rows scores(shape.rows, shape.width, 0, DType::kF32);
  const Rows indices(shape.rows, shape.k, 0, DType::kI32);
  const Rows table(1, shape.pages(), 0, DType::kI32);
  const Rows pages(shape.rows, shape.k, 0, DType::kI32);
  scores.set(input.scores);
  indices.set(input.indices);
  table.set(one);
  pages.poison();
  KILN_CU(cuCtxSynchronize);
  gpu.engine.launch("filter_topk_pages",
                    {scores.tensor(), indices.tensor(),
                     Tensor(table.data(), DType::kI32, {shape.rows, shape.pages()}, {0, 1}),
                     pages.tensor(), shape.page_size, Arg()},
                    gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(pages.difference("page_indices", reference::filter_topk_pages(input).page_indices) == "");
}

TEST_CASE("Rows of every array may lie more than 2^31 elements apart", "[pages]") {
  Gpu& gpu = Gpu::instance();
  const Shape shape{3, 300, 2003, 64};
  const std::int64_t stride = (std::int64_t{1} << 30) + 8;
  const reference::TopkPages input = random_input(shape, 7);
  const std::vector<std::int32_t> indices(input.indices.begin(), input.indices.end());
  // One buffer has the first row of each array, then the second of each, then the third.
  constexpr std::int64_t kRoom = 4096;
  const Buffer far(size(2 * stride + 5 * kRoom) * 4);
  const auto tensor = [&](std::int64_t array, DType dtype, std::int64_t columns) {
    return Tensor(static_cast<float*>(far.data()) + array * kRoom, dtype, {shape.rows, columns},
                  {stride, 1});
  };
  const auto offset = [&](std::int64_t array, std::int64_t row) {
    return size(row * stride + array * kRoom) * 4;
  };
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    far.upload(input.scores.data() + row * shape.width, size(shape.width) * 4, offset(0, row));
    far.upload(indices.data() + row * shape.k, size(shape.k) * 4, offset(1, row));
    far.upload(input.page_table.data() + row * shape.pages(), size(shape.pages()) * 4,
               offset(2, row));
  }
  const Tensor raw = tensor(4, DType::kI32, shape.k);
  gpu.engine.launch("filter_topk_pages",
                    {tensor(0, DType::kF32, shape.width), tensor(1, DType::kI32, shape.k),
                     tensor(2, DType::kI32, shape.pages()), tensor(3, DType::kI32, shape.k),
                     shape.page_size, raw},
                    gpu.stream.get());
  gpu.stream.synchronize();
  const reference::FilteredPages want = reference::filter_topk_pages(input);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto got = [&](std::int64_t array) {
      std::vector<std::int32_t> values(size(shape.k));
      far.download(values.data(), values.size() * 4, offset(array, row));
      return values;
    };
    // An array of int32 takes the lower half of a page's position.
    const auto of_row = [&](const std::vector<std::int64_t>& all) {
      std::vector<std::int32_t> values;
      for (std::int64_t i = row * shape.k; i < (row + 1) * shape.k; ++i) {
        values.push_back(static_cast<std::int32_t>(all[size(i)]));
      }
      return values;
    };
    CAPTURE(row);
    REQUIRE(got(3) == of_row(want.page_indices));
    REQUIRE(got(4) == of_row(want.raw_indices));
  }
}

TEST_CASE("Pages replay from a graph on inputs that change between replays", "[pages]") {
  Gpu& gpu = Gpu::instance();
  for (const bool pdl : {true, false}) {
    const Shape shape{4, 2048, 10'000, 64, 0, 3};
    const Call call(shape);
    REQUIRE(call.run(1, pdl) == "");
    const Graph graph(gpu.stream, [&] { call.launch(pdl); });
    for (const std::uint64_t seed : {2U, 3U}) {
      const reference::TopkPages input = random_input(shape, seed);
      call.set(input);
      graph.launch(gpu.stream);
      gpu.stream.synchronize();
      REQUIRE(call.difference(input) == "");
    }
  }
}

TEST_CASE("Pages wait for the scores before them, which are not overwritten too early",
          "[pdl][pages]") {
  Gpu& gpu = Gpu::instance();
  const Shape shape{4, 2048, 10'000, 64};
  const reference::TopkPages input = random_input(shape, 1);
  const Call call(shape);
  const Buffer source(input.scores.size() * 4);
  const Buffer other(source.bytes());
  source.upload(input.scores.data(), source.bytes());
  other.fill(0x3C);
  const auto record = [&] {
    late_copy(source.data(), call.scores().data(), source.bytes(), kDelayNs);
    call.launch(true);
    late_copy(other.data(), call.scores().data(), source.bytes(), 0);
  };
  const Graph graph(gpu.stream, record);
  for (const auto& go :
       std::vector<std::function<void()>>{record, [&] { graph.launch(gpu.stream); }}) {
    for (int i = 0; i < 10; ++i) {
      call.set(input);
      KILN_CU(cuMemsetD8, reinterpret_cast<CUdeviceptr>(call.scores().data()), 0xFF,
              source.bytes());
      KILN_CU(cuCtxSynchronize);
      go();
      gpu.stream.synchronize();
      REQUIRE(call.difference(input) == "");
    }
  }
}

}  // namespace
}  // namespace kiln::gpu
