#include "tests/gpu/support/norm_case.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "reference/mxfp8.hpp"
#include "reference/norm.hpp"
#include "tests/gpu/support/compare.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/random.hpp"
#include "tests/gpu/support/rsqrt.hpp"

namespace kiln::gpu {
namespace {

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

template <class T>
std::unique_ptr<Buffer> to_device(const std::vector<T>& values) {
  auto buffer = std::make_unique<Buffer>(values.size() * sizeof(T));
  buffer->upload(values.data(), values.size() * sizeof(T));
  return buffer;
}

std::int64_t x_width(const NormOp& op, std::int64_t k) {
  return op.streams ? 4 * k : k;
}

// Rows of `bytes` from a block of NormData::kRows rows, in stream order.
void copy_rows(const Buffer& block, const Buffer& to, std::size_t bytes, std::size_t pitch,
               std::int64_t m, std::int64_t first, const Stream& stream) {
  for (std::int64_t row = 0; row < m;) {
    const std::int64_t from = (first + row) % NormData::kRows;
    const std::int64_t rows = std::min(m - row, NormData::kRows - from);
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = block.address() + size(from) * bytes;
    copy.srcPitch = bytes;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = to.address() + size(row) * pitch;
    copy.dstPitch = pitch;
    copy.WidthInBytes = bytes;
    copy.Height = size(rows);
    KILN_CU(cuMemcpy2DAsync, &copy, stream.get());
    row += rows;
  }
}

}  // namespace

NormData::NormData(const NormOp& which, std::int64_t width, float magnitude, DType pre,
                   std::uint64_t seed)
    : NormData(which, width, random_bf16(size(kRows * x_width(which, width)), magnitude, seed), pre,
               seed) {}

NormData::NormData(const NormOp& which, std::int64_t width_of_y,
                   std::vector<std::uint16_t> x_values, DType pre, std::uint64_t seed)
    : op(which), k(width_of_y), pre_dtype(pre), x(std::move(x_values)) {
  // Exact in bf16, so that both types of pre have one set of values.
  const std::vector<std::uint16_t> pre_bits = random_bf16(size(kRows * 4), 1.0F, seed + 100);
  const std::vector<float> pre_values = reference::to_floats(pre_bits.data(), kRows * 4);
  const std::vector<std::uint16_t> w = random_bf16(size(k), 1.0F, seed + 200);
  x_device = to_device(x);
  pre_device = pre == DType::kF32 ? to_device(pre_values) : to_device(pre_bits);
  w_device = to_device(w);

  y = op.streams ? reference::hc_combine(x.data(), width(), pre_values.data(), kRows, k) : x;
  if (op.norm) {
    y = reference::rmsnorm(y.data(), k, w.data(), kNormEps, kRows, k, device_rsqrt);
  }
  if (op.quantizes) {
    const reference::Mxfp8 quantized = reference::mxfp8_quantize(y.data(), k, kRows, k);
    q = quantized.q;
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t group = 0; group < k / 32; ++group) {
        scales.push_back(quantized.sf[reference::mxfp8_scale_index(row, group, k)]);
      }
    }
  }
}

NormBatch::NormBatch(const NormData& data, std::int64_t m, std::int64_t gap, std::size_t sf_offset)
    : data_(&data),
      m_(m),
      row_stride_(data.width() + gap),
      sf_offset_(sf_offset),
      sf_bytes_(data.op.quantizes ? reference::mxfp8_scale_bytes(m, data.k) : 0),
      x_(size(m * row_stride_) * 2),
      pre_(size(m) * data.pre_row_bytes()),
      y_(data.op.norm ? size(m * data.k) * 2 : 0),
      q_(data.op.quantizes ? size(m * data.k) : 0),
      sf_(sf_bytes_ + sf_offset) {
  x_.fill(0xFF);
}

void NormBatch::set_rows(const NormData& data, std::int64_t first) {
  const Stream& stream = Gpu::instance().stream;
  copy_rows(*data.x_device, x_, size(data.width()) * 2, size(row_stride_) * 2, m_, first, stream);
  copy_rows(*data.pre_device, pre_, data.pre_row_bytes(), data.pre_row_bytes(), m_, first, stream);
}

void NormBatch::poison(std::uint8_t byte) {
  poison_ = byte;
  y_.poison(byte);
  q_.poison(byte);
  sf_.poison(byte);
}

void NormBatch::launch(const LaunchOptions& options, const char* op, const Buffer* w) const {
  Gpu& gpu = Gpu::instance();
  const NormData& data = *data_;
  const Tensor x(x_.data(), DType::kBF16, {m_, data.width()}, {row_stride_, 1});
  const Tensor pre(pre_.data(), data.pre_dtype, {m_, 4});
  const Tensor weights((w != nullptr ? *w : *data.w_device).data(), DType::kBF16, {data.k});
  const Tensor y(y_.data(), DType::kBF16, {m_, data.k});
  const Tensor q(q_.data(), DType::kE4M3, {m_, data.k});
  const Tensor sf(static_cast<std::uint8_t*>(sf_.data()) + sf_offset_, DType::kE8M0,
                  {static_cast<std::int64_t>(sf_bytes_)});
  std::vector<Arg> args{x};
  if (data.op.streams) {
    args.emplace_back(pre);
  }
  if (data.op.norm) {
    args.insert(args.end(), {Arg(weights), Arg(static_cast<double>(kNormEps)), Arg(y)});
  }
  if (data.op.quantizes) {
    args.insert(args.end(), {Arg(q), Arg(sf)});
  }
  const OpHandle handle = gpu.engine.op(op != nullptr ? op : data.op.name);
  gpu.engine.launch(handle, args, gpu.stream.get(), options);
}

std::string NormBatch::check(const NormData& data, std::int64_t first) const {
  if (!y_.canaries_intact() || !q_.canaries_intact() || !sf_.canaries_intact()) {
    return "a canary beside an output was overwritten";
  }
  if (data.op.norm) {
    const std::vector<std::uint16_t> got = y_.download_u16();
    for (std::int64_t row = 0; row < m_; ++row) {
      const std::size_t count = size(data.k);
      const std::uint16_t* mine = got.data() + size(row) * count;
      const std::uint16_t* want = data.y.data() + size((first + row) % NormData::kRows) * count;
      if (std::memcmp(mine, want, count * 2) != 0) {
        const std::string wrong =
            first_difference(std::span(mine, count), std::span(want, count), count);
        if (!wrong.empty()) {
          return "y, batch row " + std::to_string(row) + ": " + wrong;
        }
      }
    }
  }
  return data.op.quantizes ? check_quantized(data, first) : "";
}

std::string NormBatch::check_quantized(const NormData& data, std::int64_t first) const {
  const std::vector<std::uint8_t> got = q_.download();
  for (std::int64_t row = 0; row < m_; ++row) {
    const std::size_t count = size(data.k);
    const std::uint8_t* mine = got.data() + size(row) * count;
    const std::uint8_t* want = data.q.data() + size((first + row) % NormData::kRows) * count;
    if (std::memcmp(mine, want, count) != 0) {
      const auto column = std::mismatch(mine, mine + count, want).first - mine;
      return "q, batch row " + std::to_string(row) + " column " + std::to_string(column) +
             ": got " + std::to_string(mine[column]) + ", want " + std::to_string(want[column]);
    }
  }
  return check_scales(data, first);
}

std::string NormBatch::check_scales(const NormData& data, std::int64_t first) const {
  const std::vector<std::uint8_t> got = sf_.download();
  std::vector<std::uint8_t> want(sf_bytes_ + sf_offset_, 0);
  std::fill_n(want.begin(), sf_offset_, poison_);
  const std::int64_t groups = data.k / 32;
  for (std::int64_t row = 0; row < m_; ++row) {
    const std::int64_t from = (first + row) % NormData::kRows;
    for (std::int64_t group = 0; group < groups; ++group) {
      want[sf_offset_ + reference::mxfp8_scale_index(row, group, data.k)] =
          data.scales[size(from * groups + group)];
    }
  }
  const auto at = std::mismatch(got.begin(), got.end(), want.begin());
  if (at.first == got.end()) {
    return "";
  }
  return "sf, byte " + std::to_string(at.first - got.begin()) + ": got " +
         std::to_string(*at.first) + ", want " + std::to_string(*at.second);
}

std::string run_norm(const NormData& data, NormBatch& batch, std::int64_t m, bool pdl,
                     NormMode mode, const char* op) {
  Gpu& gpu = Gpu::instance();
  LaunchOptions options;
  options.pdl = pdl;
  const std::int64_t starts[] = {0, m * 7 % NormData::kRows};
  if (mode == NormMode::kEager) {
    batch.poison(0xA5);
    batch.set_rows(data, starts[1]);
    batch.launch(options, op);
    gpu.stream.synchronize();
    return batch.check(data, starts[1]);
  }
  batch.set_rows(data, starts[0]);
  batch.launch(options, op);  // Loads the kernel, so that the capture only launches.
  gpu.stream.synchronize();
  const Graph graph(gpu.stream, [&] { batch.launch(options, op); });
  for (const std::int64_t first : starts) {
    batch.poison(0x5A);
    batch.set_rows(data, first);
    graph.launch(gpu.stream);
    gpu.stream.synchronize();
    const std::string problem = batch.check(data, first);
    if (!problem.empty()) {
      return "replay from row " + std::to_string(first) + ": " + problem;
    }
  }
  return "";
}

}  // namespace kiln::gpu
