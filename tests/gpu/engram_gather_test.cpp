// docs/kernel_contracts.md, sections 4 and 6: engram_gather, bit for bit against the CPU reference.
#include "reference/engram_gather.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/gpu/support/compare.hpp"
#include "tests/gpu/support/forced_variant.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/host_memory.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/replayed.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr std::int64_t kRowLo = 5'000'000'000;  // Needs more than 32 bits.

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

std::vector<std::uint8_t> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<std::uint8_t> bytes(count);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(generator()); });
  return bytes;
}

enum class Place { kDevice, kPinned, kMapped };

/// Where an array lies: of what memory, and how many bytes from an aligned address.
struct Spot {
  Place place = Place::kDevice;
  std::size_t offset = 0;
};

/// Rows [row_lo, row_lo + rows) of a table of any bytes at all, in device or host memory.
class Table {
 public:
  Table(std::int64_t rows, std::int64_t dim, std::int64_t block, std::int64_t row_lo = kRowLo,
        Spot weight_spot = {}, Spot scale_spot = {})
      : rows_(rows),
        dim_(dim),
        block_(block),
        row_lo_(row_lo),
        weight_(random_bytes(size(rows * dim), 1)),
        scale_(random_bytes(size(rows * (dim / block)), 2)),
        device_weight_(weight_spot, weight_),
        device_scale_(scale_spot, scale_) {}

  std::vector<std::uint16_t> expected(const std::vector<std::int64_t>& ids) const {
    return reference::engram_gather({weight_.data(), scale_.data(), row_lo_, rows_, dim_, block_},
                                    ids);
  }
  void launch(const Tensor& ids, const Tensor& out, bool pdl = true,
              const std::string& op = "engram_gather") const {
    Gpu& gpu = Gpu::instance();
    LaunchOptions options;
    options.pdl = pdl;
    gpu.engine.launch(
        op,
        {device_weight_.tensor(DType::kE4M3, {rows_, dim_}),
         device_scale_.tensor(DType::kE8M0, {rows_, dim_ / block_}), ids, out, row_lo_},
        gpu.stream.get(), options);
  }
  std::int64_t dim() const { return dim_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t row_lo() const { return row_lo_; }

 private:
  /// The bytes where the device finds them, at an offset from an aligned address.
  class Bytes {
   public:
    Bytes(Spot spot, const std::vector<std::uint8_t>& bytes) : spot_(spot) {
      const std::size_t all = bytes.size() + spot.offset;
      if (spot.place == Place::kDevice) {
        device_.emplace_back(all);
        device_.back().upload(bytes.data(), bytes.size(), spot.offset);
      } else {
        host_.emplace_back(all, spot.place == Place::kMapped);
        std::copy(bytes.begin(), bytes.end(), host_.back().host() + spot.offset);
      }
    }
    DLTensor tensor(DType dtype, std::initializer_list<std::int64_t> shape) const {
      shape_ = shape;
      DLTensor out{};
      const bool device = spot_.place == Place::kDevice;
      auto* const base = device ? device_.front().data() : host_.front().device();
      out.data = static_cast<std::uint8_t*>(base) + spot_.offset;
      out.device = {device ? kDLCUDA : kDLCUDAHost, 0};
      out.ndim = static_cast<int>(shape_.size());
      out.dtype = dtype_to_dlpack(dtype);
      out.shape = shape_.data();
      return out;
    }

   private:
    Spot spot_;
    std::vector<Buffer> device_;  // One of the two has one element.
    std::vector<HostMemory> host_;
    mutable std::vector<std::int64_t> shape_;  // Of the last tensor; lives as long as this.
  };

  std::int64_t rows_;
  std::int64_t dim_;
  std::int64_t block_;
  std::int64_t row_lo_;
  std::vector<std::uint8_t> weight_;
  std::vector<std::uint8_t> scale_;
  Bytes device_weight_;
  Bytes device_scale_;
};

// Owned ids, first and last row among them, and ids beyond both ends; with int32, those that fit.
std::vector<std::int64_t> random_ids(const Table& table, std::int64_t n, std::uint64_t seed,
                                     bool narrow) {
  using Limits = std::numeric_limits<std::int64_t>;
  std::mt19937_64 generator(seed);
  const std::int64_t lo = table.row_lo();
  const std::int64_t hi = lo + table.rows();
  const std::int64_t odd[] = {lo - 1,           hi, lo, hi - 1, -1, Limits::min(), Limits::max(),
                              lo - table.rows()};
  std::vector<std::int64_t> ids(size(n));
  for (std::int64_t& id : ids) {
    id = generator() % 4 == 0 ? odd[generator() % 8]
                              : lo + static_cast<std::int64_t>(
                                         generator() % static_cast<std::uint64_t>(table.rows()));
    if (narrow) {
      id = static_cast<std::int32_t>(id);
    }
  }
  return ids;
}

/// ids as the op sees them, natural alignment and no more.
class Ids {
 public:
  Ids(std::size_t n, bool narrow) : n_(n), narrow_(narrow), buffer_((n + 1) * width()) {}

  void set(const std::vector<std::int64_t>& ids) const {
    if (narrow_) {
      const std::vector<std::int32_t> values(ids.begin(), ids.end());
      buffer_.upload(values.data(), n_ * 4, width());
    } else {
      buffer_.upload(ids.data(), n_ * 8, width());
    }
  }
  Tensor tensor() const {
    return {static_cast<char*>(buffer_.data()) + width(),
            narrow_ ? DType::kI32 : DType::kI64,
            {static_cast<std::int64_t>(n_)}};
  }
  std::size_t width() const { return narrow_ ? 4 : 8; }

 private:
  std::size_t n_;
  bool narrow_;
  Buffer buffer_;
};

std::string difference(const Table& table, const GuardedBuffer& out,
                       const std::vector<std::int64_t>& ids) {
  return out.canaries_intact()
             ? first_difference(out.download_u16(), table.expected(ids), size(table.dim()))
             : "a canary beside the output was overwritten";
}

/// Eagerly, and replayed with other ids.
std::string run(const Table& table, std::int64_t n, bool pdl = true, bool narrow = false,
                const std::string& op = "engram_gather") {
  const Stream& stream = Gpu::instance().stream;
  const Ids ids(size(n), narrow);
  const GuardedBuffer out(size(n * table.dim()) * 2);
  const Tensor out_tensor(out.data(), DType::kBF16, {n, table.dim()});
  const auto launch = [&] { table.launch(ids.tensor(), out_tensor, pdl, op); };
  const std::vector<std::int64_t> first = random_ids(table, n, 11, narrow);
  ids.set(first);
  out.poison(0xA5);
  launch();
  stream.synchronize();
  std::string problem = difference(table, out, first);
  if (!problem.empty() || n == 0) {
    return problem;
  }
  const Graph graph(stream, launch);
  const std::vector<std::int64_t> second = random_ids(table, n, 12, narrow);
  ids.set(second);
  out.poison(0x5A);
  graph.launch(stream);
  stream.synchronize();
  problem = difference(table, out, second);
  return problem.empty() ? "" : "replayed: " + problem;
}

TEST_CASE("engram_gather agrees with the reference bit for bit at every row count", "[gather]") {
  const bool narrow = GENERATE(false, true);
  const Table table(1000, 512, 128, narrow ? 1'000'000 : kRowLo);
  for (const std::int64_t n :
       {1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097, 8192, 70'001}) {
    CAPTURE(narrow, n);
    REQUIRE(run(table, n, true, narrow) == "");
    REQUIRE(run(table, n, false, narrow) == "");
  }
}

TEST_CASE("engram_gather takes every kind of width and block", "[gather]") {
  for (const std::int64_t dim : {16, 32, 48, 240, 512, 768, 2048, 4096, 5120, 16384}) {
    for (const std::int64_t block : {1, 2, 3, 4, 8, 12, 16, 24, 32, 128, 240, 512, 16384}) {
      if (dim % block != 0) {
        continue;
      }
      const Table table(37, dim, block);
      for (const std::int64_t n : {std::int64_t{1}, std::int64_t{33}, 3000 * 16 / dim + 40}) {
        CAPTURE(dim, block, n);
        REQUIRE(run(table, n) == "");
      }
    }
  }
}

TEST_CASE("engram_gather is right on the row counts that the memory checkers run",
          "[gather][sanitize]") {
  // The table is as large as its rows, so that any read beyond them is found.
  for (const std::int64_t block : {3, 8, 48}) {
    const Table table(7, 48, block);
    for (const std::int64_t n : {0, 1, 3, 33, 129}) {
      CAPTURE(block, n);
      REQUIRE(run(table, n) == "");
      REQUIRE(run(table, n, true, true) == "");
    }
  }
}

TEST_CASE("Every variant of engram_gather gives the same bits", "[gather][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const OpHandle original = gpu.engine.op("engram_gather");
  const Table table(50, 528, 16);
  std::size_t count = 0;
  for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
    if (variant.traits[kPdlTrait] == 0) {
      continue;  // Asked for below.
    }
    const Op forced = forced_variant(original.op(), variant.traits, std::to_string(count++));
    gpu.engine.register_op(forced);
    for (const std::int64_t n : {1, 33, 3000}) {
      for (const bool pdl : {true, false}) {
        CAPTURE(to_string(variant), n, pdl);
        REQUIRE(run(table, n, pdl, false, forced.name) == "");
      }
    }
  }
  REQUIRE(count >= 3);
}

TEST_CASE("engram_gather reads weights and scales each in device, pinned or mapped memory",
          "[gather]") {
  const Place weight = GENERATE(Place::kDevice, Place::kPinned, Place::kMapped);
  const Place scale = GENERATE(Place::kDevice, Place::kPinned, Place::kMapped);
  CAPTURE(static_cast<int>(weight), static_cast<int>(scale));
  // Several scales in a vector, one, and rows of which a thread takes two vectors.
  for (const auto& [dim, block, n] :
       {std::tuple{48, 3, 1000}, {48, 16, 33}, {512, 128, 1}, {512, 128, 2000}}) {
    const Table table(300, dim, block, kRowLo, {weight}, {scale});
    CAPTURE(dim, block, n);
    REQUIRE(run(table, n) == "");
    REQUIRE(run(table, n, false, true) == "");
  }
}

TEST_CASE("engram_gather takes every alignment that its contract allows", "[gather][sanitize]") {
  for (const Place place : {Place::kDevice, Place::kPinned, Place::kMapped}) {
    for (const std::size_t weight : {16U, 32U, 48U, 112U}) {
      for (const std::size_t scale : {1U, 2U, 3U, 7U}) {
        CAPTURE(static_cast<int>(place), weight, scale);
        const Table table(20, 64, 16, kRowLo, {place, weight}, {place, scale});
        REQUIRE(run(table, 33) == "");
      }
    }
  }
}

TEST_CASE("engram_gather writes to any 16-byte boundary, and ids lie at any of their own",
          "[gather][sanitize]") {
  constexpr std::int64_t kIds = 70;
  const Stream& stream = Gpu::instance().stream;
  for (const std::int64_t dim : {48, 512}) {
    const Table table(20, dim, 16, 1'000'000);
    const std::vector<std::int64_t> numbers = random_ids(table, kIds, 3, true);
    for (const std::size_t at : {16U, 48U, 80U, 112U}) {
      CAPTURE(dim, at);
      const GuardedBuffer whole(at + size(kIds * dim) * 2);
      whole.poison(0xA5);
      const Ids ids(size(kIds), at % 32 == 16);
      ids.set(numbers);
      table.launch(ids.tensor(),
                   {static_cast<char*>(whole.data()) + at, DType::kBF16, {kIds, dim}});
      stream.synchronize();
      REQUIRE(whole.canaries_intact());
      const std::vector<std::uint16_t> got = whole.download_u16();
      const auto begin = got.begin() + static_cast<std::ptrdiff_t>(at / 2);
      REQUIRE(std::all_of(got.begin(), begin, [](std::uint16_t v) { return v == 0xA5A5; }));
      REQUIRE(first_difference({begin, got.end()}, table.expected(numbers), size(dim)) == "");
    }
  }
}

TEST_CASE("A table without rows gives zeros", "[gather][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const Ids ids(3, false);
  ids.set({0, 1, 5});
  const GuardedBuffer out(3 * 32 * 2);
  out.poison(0xA5);
  gpu.engine.launch("engram_gather",
                    {Tensor(nullptr, DType::kU8, {0, 32}), Tensor(nullptr, DType::kU8, {0, 2}),
                     ids.tensor(), Tensor(out.data(), DType::kBF16, {3, 32}), 0},
                    gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(out.canaries_intact());
  REQUIRE(out.download() == std::vector<std::uint8_t>(out.bytes(), 0));
}

TEST_CASE("Every value of e4m3 meets every scale", "[gather]") {
  std::vector<std::uint8_t> weight(256 * 256);
  std::vector<std::uint8_t> scale(256);
  for (std::size_t row = 0; row < 256; ++row) {
    scale[row] = static_cast<std::uint8_t>(row);
    for (std::size_t column = 0; column < 256; ++column) {
      weight[row * 256 + column] = static_cast<std::uint8_t>(column);
    }
  }
  Gpu& gpu = Gpu::instance();
  const Buffer device_weight(weight.size());
  const Buffer device_scale(scale.size());
  device_weight.upload(weight.data(), weight.size());
  device_scale.upload(scale.data(), scale.size());
  std::vector<std::int64_t> numbers(256);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<std::int64_t>(255 - i);
  }
  const Ids ids(256, false);
  ids.set(numbers);
  const GuardedBuffer out(256 * 256 * 2);
  out.poison(0xA5);
  gpu.engine.launch("engram_gather",
                    {Tensor(device_weight.data(), DType::kE4M3, {256, 256}),
                     Tensor(device_scale.data(), DType::kE8M0, {256, 1}), ids.tensor(),
                     Tensor(out.data(), DType::kBF16, {256, 256}), 0},
                    gpu.stream.get());
  gpu.stream.synchronize();
  const std::vector<std::uint16_t> want =
      reference::engram_gather({weight.data(), scale.data(), 0, 256, 256, 256}, numbers);
  REQUIRE(first_difference(out.download_u16(), want, 256) == "");
}

TEST_CASE("engram_gather reads rows beyond 2^32 bytes and writes beyond 2^31 elements",
          "[gather]") {
  constexpr std::int64_t kDim = 8192;
  const std::int64_t rows = (std::int64_t{1} << 32) / kDim + 1;
  const std::int64_t n = (std::int64_t{1} << 31) / kDim + 1;
  Gpu& gpu = Gpu::instance();
  const Buffer weight(size(rows * kDim));
  const Buffer scale(size(rows));
  weight.fill(0x38);                                       // 1
  scale.fill(127);                                         // 1
  const std::vector<std::uint8_t> last(size(kDim), 0x40);  // 2
  weight.upload(last.data(), last.size(), size((rows - 1) * kDim));
  std::vector<std::int64_t> numbers(size(n), 0);
  numbers.back() = rows - 1;
  const Ids ids(size(n), false);
  ids.set(numbers);
  const GuardedBuffer out(size(n * kDim) * 2);
  out.poison(0xA5);
  gpu.engine.launch("engram_gather",
                    {Tensor(weight.data(), DType::kE4M3, {rows, kDim}),
                     Tensor(scale.data(), DType::kE8M0, {rows, 1}), ids.tensor(),
                     Tensor(out.data(), DType::kBF16, {n, kDim}), 0},
                    gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(out.canaries_intact());
  const std::vector<std::uint16_t> got = out.download_u16();
  const auto boundary = got.end() - kDim;
  REQUIRE(std::all_of(got.begin(), boundary, [](std::uint16_t v) { return v == 0x3F80; }));
  REQUIRE(std::all_of(boundary, got.end(), [](std::uint16_t v) { return v == 0x4000; }));
}

TEST_CASE("engram_gather waits for its producer, and the next kernel for it", "[pdl]") {
  const std::int64_t n = GENERATE(1, 130, 5000);
  const Table table(100, 256, 32);
  const std::vector<std::int64_t> wanted = random_ids(table, n, 1, false);
  const Ids from(size(n), false);
  const Ids other(size(n), false);
  const Ids ids(size(n), false);
  from.set(wanted);
  other.set(random_ids(table, n, 2, false));
  const GuardedBuffer out(size(n * table.dim()) * 2);
  const Buffer copied(out.bytes());
  const auto copy_ids = [&](const Ids& source, std::int64_t delay_ns) {
    late_copy(source.tensor().dlpack().data, ids.tensor().dlpack().data, size(n) * 8, delay_ns);
  };
  const auto record = [&] {
    late_copy(out.data(), copied.data(), out.bytes(), kDelayNs);
    copy_ids(from, kDelayNs);
    table.launch(ids.tensor(), {out.data(), DType::kBF16, {n, table.dim()}});
    copy_ids(other, 0);
  };
  const auto check = [&] {
    REQUIRE(difference(table, out, wanted) == "");
    std::vector<std::uint8_t> old(copied.bytes());
    copied.download(old.data(), old.size());
    REQUIRE(std::all_of(old.begin(), old.end(), [](std::uint8_t b) { return b == 0xA5; }));
  };
  const auto reset = [&] {
    ids.set(std::vector<std::int64_t>(size(n), -1));
    out.poison(0xA5);
  };
  eagerly_and_replayed(reset, record, check);
}

}  // namespace
}  // namespace kiln::gpu
