#include "bench/norm_sweep/cases.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <stdexcept>

namespace kiln::bench {
namespace {

constexpr Case kCases[] = {
    {"rmsnorm", 1, 5120},
    {"rmsnorm", 8, 5120},
    {"rmsnorm", 64, 5120},
    {"rmsnorm", 256, 5120},
    {"rmsnorm", 1000, 5120},
    {"rmsnorm", 4096, 5120},
    {"rmsnorm", 16384, 5120},
    {"mxfp8_quantize", 1, 5120},
    {"mxfp8_quantize", 8, 5120},
    {"mxfp8_quantize", 64, 5120},
    {"mxfp8_quantize", 256, 5120},
    {"mxfp8_quantize", 1000, 5120},
    {"mxfp8_quantize", 4096, 5120},
    {"mxfp8_quantize", 16384, 5120},
    {"rmsnorm_mxfp8", 1, 1280},
    {"rmsnorm_mxfp8", 1, 5120},
    {"rmsnorm_mxfp8", 8, 1280},
    {"rmsnorm_mxfp8", 8, 5120},
    {"rmsnorm_mxfp8", 64, 5120},
    {"rmsnorm_mxfp8", 256, 5120},
    {"rmsnorm_mxfp8", 1000, 5120},
    {"rmsnorm_mxfp8", 4096, 5120},
    {"rmsnorm_mxfp8", 16384, 5120},
    {"hc_combine_norm", 1, 5120},
    {"hc_combine_norm", 4, 5120},
    {"hc_combine_norm", 8, 5120},
    {"hc_combine_norm", 48, 5120},
    {"hc_combine_norm", 96, 5120},
    {"hc_combine_norm", 256, 5120},
    {"hc_combine_norm", 1000, 5120},
    {"hc_combine_norm", 4096, 5120},
    {"hc_combine_norm", 16384, 5120},
    {"hc_combine_norm_mxfp8", 1, 5120},
    {"hc_combine_norm_mxfp8", 4, 5120},
    {"hc_combine_norm_mxfp8", 8, 5120},
    {"hc_combine_norm_mxfp8", 96, 5120},
    {"hc_combine_norm_mxfp8", 256, 5120},
    {"hc_combine_norm_mxfp8", 1000, 5120},
    {"hc_combine_norm_mxfp8", 4096, 5120},
    {"hc_combine_norm_mxfp8", 16384, 5120},
    {"mhc_post_split_h", 1, 5120},
    {"mhc_post_split_h", 8, 5120},
    {"mhc_post_split_h", 64, 5120},
    {"mhc_post_split_h", 256, 5120},
    {"mhc_post_split_h", 1000, 5120},
    {"mhc_post_split_h", 4096, 5120},
    {"rmsnorm_fp32", 1, 5120},
    {"rmsnorm_fp32", 8, 5120},
    {"rmsnorm_fp32", 256, 5120},
    {"rmsnorm_fp32", 1000, 5120},
    {"rmsnorm_fp32", 4096, 5120},
};

constexpr double kBytesPerUs = 4.3e6;
constexpr double kGraphNodeUs = 0.5;
constexpr std::size_t kMiB = std::size_t{1} << 20;

bool has_streams(const Case& which) {
  return std::string_view(which.op).substr(0, 2) == "hc";
}
bool quantizes(const Case& which) {
  return std::string_view(which.op).find("mxfp8") != std::string_view::npos;
}
bool is_post(const Case& which) {
  return std::string_view(which.op) == "mhc_post_split_h";
}
bool is_quantize(const Case& which) {
  return std::string_view(which.op) == "mxfp8_quantize";
}

// Patterns that are normal values near 1 both as bf16 and as fp32.
std::vector<std::uint16_t> random_values(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    value = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(generator)) >> 16);
  }
  return values;
}

}  // namespace

std::span<const Case> cases() {
  return kCases;
}

std::int64_t bytes_of(const Case& which) {
  const std::int64_t row = which.m * which.k;
  if (is_post(which)) {
    return row * 2 * 9 + which.m * 80;
  }
  std::int64_t bytes = row * (has_streams(which) ? 8 : 2);
  bytes += has_streams(which) ? which.m * 16 : 0;
  bytes += is_quantize(which) ? 0 : row * 2 + which.k * 2;
  bytes += quantizes(which) ? row + (which.m + 127) / 128 * 128 * ((which.k / 32 + 3) / 4 * 4) : 0;
  return bytes;
}

double floor_us(const Case& which) {
  return std::max(static_cast<double>(bytes_of(which)) / kBytesPerUs, kGraphNodeUs);
}

void CaseTensors::add(DType dtype, std::vector<std::int64_t> shape, bool written) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    elements *= extent;
  }
  const auto bytes = static_cast<std::size_t>(elements * dtype_size(dtype));
  arguments_.push_back({set_bytes_, bytes, dtype, std::move(shape), written, false});
  set_bytes_ += (bytes + 511) / 512 * 512;
}

void CaseTensors::add_eps() {
  Argument eps;
  eps.is_eps = true;
  arguments_.push_back(eps);
}

void CaseTensors::describe(const Case& which) {
  const std::int64_t m = which.m;
  const std::int64_t k = which.k;
  if (is_post(which)) {
    add(DType::kBF16, {m, k});
    add(DType::kBF16, {m, 4, k});
    add(DType::kF32, {m, 4});
    add(DType::kF32, {m, 4, 4});
    add(DType::kBF16, {m, 4, k}, true);
    return;
  }
  add(DType::kBF16, {m, has_streams(which) ? 4 * k : k});
  if (has_streams(which)) {
    add(DType::kF32, {m, 4});
  }
  if (!is_quantize(which)) {
    add(DType::kBF16, {k});
    add_eps();
    add(DType::kBF16, {m, k}, true);
  }
  if (quantizes(which)) {
    add(DType::kE4M3, {m, k}, true);
    add(DType::kE8M0, {(m + 127) / 128 * 128 * ((k / 32 + 3) / 4 * 4)}, true);
  }
}

CaseTensors::CaseTensors(const Case& which) {
  describe(which);
  const auto moved = static_cast<std::size_t>(bytes_of(which));
  if (moved > 8 * kMiB) {
    sets_ = std::clamp<std::size_t>((256 * kMiB + moved - 1) / moved, 2, 100);
  }
  memory_.emplace_back(set_bytes_ * sets_);
  const std::vector<std::uint16_t> random = random_values(4 * kMiB);
  const std::size_t total = memory_[0].bytes();
  for (std::size_t at = 0; at < total; at += random.size() * 2) {
    memory_[0].upload(random.data(), std::min(random.size() * 2, total - at), at);
  }
}

void CaseTensors::launch(Engine& engine, OpHandle op, CUstream stream) {
  constexpr double kEps = 1e-6;
  char* const set = static_cast<char*>(memory_[0].data()) + next_ * set_bytes_;
  next_ = (next_ + 1) % sets_;
  std::vector<Tensor> tensors;
  tensors.reserve(arguments_.size());
  std::vector<Arg> args;
  for (const Argument& argument : arguments_) {
    if (argument.is_eps) {
      args.emplace_back(kEps);
      continue;
    }
    const std::vector<std::int64_t>& shape = argument.shape;
    void* const data = set + argument.offset;
    switch (shape.size()) {
      case 1:
        tensors.emplace_back(data, argument.dtype, std::initializer_list{shape[0]});
        break;
      case 2:
        tensors.emplace_back(data, argument.dtype, std::initializer_list{shape[0], shape[1]});
        break;
      default:
        tensors.emplace_back(data, argument.dtype,
                             std::initializer_list{shape[0], shape[1], shape[2]});
    }
    args.emplace_back(tensors.back());
  }
  engine.launch(op, args, stream);
}

std::vector<std::uint8_t> CaseTensors::result(Engine& engine, OpHandle op, CUstream stream) {
  next_ = 0;
  std::vector<std::uint8_t> bytes;
  for (const Argument& argument : arguments_) {
    if (argument.written) {
      KILN_CU(cuMemsetD8, memory_[0].address() + argument.offset, std::uint8_t{0xA5},
              argument.bytes);
    }
  }
  KILN_CU(cuCtxSynchronize);
  launch(engine, op, stream);
  KILN_CU(cuStreamSynchronize, stream);
  for (const Argument& argument : arguments_) {
    if (argument.written) {
      const std::size_t at = bytes.size();
      bytes.resize(at + argument.bytes);
      memory_[0].download(bytes.data() + at, argument.bytes, argument.offset);
    }
  }
  next_ = 0;
  return bytes;
}

}  // namespace kiln::bench
