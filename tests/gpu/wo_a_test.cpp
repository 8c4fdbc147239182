// docs/kernel_contracts.md, sections 5 and 6: the wo_a ops, bit for bit against the CPU references
// that walk the project's orders of summation, and against fp64 within the contract's bound. The
// MXFP8 form meets the quantised bytes of the same outputs.
#include "reference/wo_a.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "reference/gemm.hpp"
#include "reference/mxfp8.hpp"
#include "tests/gpu/support/compare.hpp"
#include "tests/gpu/support/forced_variant.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/random.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

using reference::Bf16;
using reference::WoAShape;

enum class Form { kGemv, kBatch, kMxfp8 };
constexpr Form kForms[] = {Form::kGemv, Form::kBatch, Form::kMxfp8};

const char* name_of(Form form) {
  switch (form) {
    case Form::kGemv:
      return "wo_a_bf16_gemv";
    case Form::kBatch:
      return "wo_a_bf16_small_batch";
    default:
      return "wo_a_bf16_small_batch_mxfp8";
  }
}

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// Up to 16 tokens on the host and what comes out for each form.
struct Values {
  Values(const WoAShape& shape, std::vector<Bf16> x_values, std::vector<Bf16> w_values)
      : x(std::move(x_values)), w(std::move(w_values)) {
    y = reference::wo_a_small_batch(x.data(), shape.g * shape.d, w.data(), shape);
    one = reference::wo_a_gemv(x.data(), w.data(), {1, shape.g, shape.r, shape.d});
  }
  Values(const WoAShape& shape, float magnitude, std::uint64_t seed)
      : Values(shape, random_bf16(size(shape.m * shape.g * shape.d), magnitude, seed),
               random_bf16(size(shape.g * shape.r * shape.d), 1.0F, seed + 1)) {}

  std::vector<Bf16> x, w, y, one;
};

/// Device memory of one call of any form; tokens lie `gap` elements further apart, with NaN
/// between.
class Call {
 public:
  Call(Form form, const WoAShape& shape, std::int64_t gap = 0, std::size_t sf_offset = 0)
      : form_(form),
        shape_(shape),
        stride_(shape.g * shape.d + gap),
        sf_offset_(sf_offset),
        x_(size(shape.m * stride_) * 2),
        w_(size(shape.g * shape.r * shape.d) * 2),
        y_(form == Form::kMxfp8 ? 0 : size(shape.m * width()) * 2),
        q_(form == Form::kMxfp8 ? size(shape.m * width()) : 0),
        sf_(form == Form::kMxfp8 ? scale_bytes() + sf_offset : 0) {
    x_.fill(0xFF);
  }

  void set(const Values& values) const {
    const auto row = size(shape_.g * shape_.d);
    for (std::int64_t token = 0; token < shape_.m; ++token) {
      x_.upload(values.x.data() + size(token) * row, row * 2, size(token * stride_) * 2);
    }
    w_.upload(values.w.data(), w_.bytes());
    poison(0xA5);
  }
  void poison(std::uint8_t byte) const {
    y_.poison(byte);
    q_.poison(byte);
    sf_.poison(byte);
  }

  void launch(const LaunchOptions& options, const char* op = nullptr) const {
    Gpu& gpu = Gpu::instance();
    const Tensor x(x_.data(), DType::kBF16, {shape_.m, shape_.g, shape_.d}, {stride_, shape_.d, 1});
    const Tensor w(w_.data(), DType::kBF16, {shape_.g, shape_.r, shape_.d});
    const Tensor y(y_.data(), DType::kBF16, {shape_.m, shape_.g, shape_.r});
    const Tensor q(q_.data(), DType::kE4M3, {shape_.m, width()});
    const Tensor sf(static_cast<std::uint8_t*>(sf_.data()) + sf_offset_, DType::kE8M0,
                    {static_cast<std::int64_t>(scale_bytes())});
    const std::vector<Arg> args =
        form_ == Form::kMxfp8 ? std::vector<Arg>{x, w, q, sf} : std::vector<Arg>{x, w, y};
    gpu.engine.launch(gpu.engine.op(op != nullptr ? op : name_of(form_)), args, gpu.stream.get(),
                      options);
  }
  void launch(bool pdl, const char* op = nullptr) const {
    LaunchOptions options;
    options.pdl = pdl;
    launch(options, op);
  }

  /// What is wrong with the output; the tokens are the first ones of `values`.
  std::string difference(const Values& values) const {
    if (!y_.canaries_intact() || !q_.canaries_intact() || !sf_.canaries_intact()) {
      return "a canary beside an output was overwritten";
    }
    const std::vector<Bf16>& all = form_ == Form::kGemv ? values.one : values.y;
    const std::vector<Bf16> want(all.begin(), all.begin() + shape_.m * width());
    if (form_ != Form::kMxfp8) {
      return first_difference(y_.download_u16(), want, size(width()));
    }
    const reference::Mxfp8 quantized =
        reference::mxfp8_quantize(want.data(), width(), shape_.m, width());
    const std::vector<std::uint8_t> sf = sf_.download();
    return q_.download() != quantized.q ? "q differs"
           : !std::equal(sf.begin() + static_cast<std::ptrdiff_t>(sf_offset_), sf.end(),
                         quantized.sf.begin(), quantized.sf.end())
               ? "sf differs"
               : "";
  }

  std::string run(const Values& values, bool pdl, const char* op = nullptr) const {
    set(values);
    launch(pdl, op);
    Gpu::instance().stream.synchronize();
    return difference(values);
  }

  const Buffer& x() const { return x_; }
  const Buffer& w() const { return w_; }
  const GuardedBuffer& y() const { return y_; }

 private:
  std::int64_t width() const { return shape_.g * shape_.r; }
  std::size_t scale_bytes() const { return reference::mxfp8_scale_bytes(shape_.m, width()); }

  Form form_;
  WoAShape shape_;
  std::int64_t stride_;
  std::size_t sf_offset_;
  Buffer x_;
  Buffer w_;
  GuardedBuffer y_;
  GuardedBuffer q_;
  GuardedBuffer sf_;
};

/// The shape with as many of its tokens as the form takes.
WoAShape with_tokens(Form form, WoAShape shape, std::int64_t m) {
  shape.m = form == Form::kGemv ? 1 : m;
  return shape;
}

TEST_CASE("A wo_a op agrees with its reference bit for bit at every number of tokens and magnitude",
          "[wo_a]") {
  const float magnitude = GENERATE(1e-37F, 4e-36F, 1e-7F, 1e-3F, 1.0F, 448.0F, 1e3F, 1e10F);
  CAPTURE(magnitude);
  const WoAShape shape{16, 2, 128, 1536};
  const Values values(shape, magnitude, 17);
  for (const Form form : kForms) {
    for (std::int64_t m = 1; m <= (form == Form::kGemv ? 1 : 16); ++m) {
      for (const std::int64_t gap : {0, 24}) {
        const Call call(form, with_tokens(form, shape, m), gap);
        CAPTURE(name_of(form), m, gap);
        REQUIRE(call.run(values, true) == "");
        REQUIRE(call.run(values, false) == "");
      }
    }
  }
}

TEST_CASE("A wo_a op is right at the model's size, and within the bound of fp64", "[wo_a]") {
  const WoAShape shape{8, 2, 1024, 4096};
  const Values values(shape, 1.0F, 23);
  for (const Form form : kForms) {
    for (const std::int64_t m : {1, 2, 8}) {
      CAPTURE(name_of(form), m);
      REQUIRE(Call(form, with_tokens(form, shape, m)).run(values, true) == "");
    }
  }
  for (std::int64_t i = 0; i < shape.g * shape.r; ++i) {
    const reference::ExactDot exact = reference::exact_dot(values.x.data() + i / shape.r * shape.d,
                                                           values.w.data() + i * shape.d, shape.d);
    REQUIRE(reference::within_bound(values.y[size(i)], exact));
    REQUIRE(reference::within_bound(values.one[size(i)], exact));
  }
}

TEST_CASE("A wo_a op takes every kind of size", "[wo_a][sanitize]") {
  const WoAShape shapes[] = {{16, 1, 64, 512},  {16, 3, 64, 1024}, {16, 2, 192, 2560},
                             {16, 5, 64, 4608}, {16, 1, 64, 8192}, {16, 1, 128, 12800}};
  for (const WoAShape& shape : shapes) {
    const Values values(shape, 1.0F, 29);
    for (const Form form : kForms) {
      for (const std::int64_t m : {1, 3, 16}) {
        CAPTURE(name_of(form), shape.g, shape.r, shape.d, m);
        REQUIRE(Call(form, with_tokens(form, shape, m), 8).run(values, true) == "");
      }
    }
  }
}

TEST_CASE("wo_a_bf16_gemv takes any number of outputs and steps of 256", "[wo_a][sanitize]") {
  const WoAShape shapes[] = {{1, 1, 1, 256}, {1, 3, 7, 768}, {1, 2, 33, 4352}, {1, 7, 9, 3840}};
  for (const WoAShape& shape : shapes) {
    CAPTURE(shape.g, shape.r, shape.d);
    const Call call(Form::kGemv, shape);
    REQUIRE(call.run(Values(shape, 1.0F, 31), true) == "");
    REQUIRE(call.run(Values(shape, 1.0F, 32), false) == "");
  }
}

TEST_CASE("Every variant of a wo_a op for enough tokens gives the same bits", "[wo_a][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const WoAShape shape{16, 2, 64, 1536};
  const Values values(shape, 1.0F, 37);
  std::size_t count = 0;
  for (const Form form : {Form::kBatch, Form::kMxfp8}) {
    const OpHandle original = gpu.engine.op(name_of(form));
    for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
      if (variant.traits[kPdlTrait] == 0) {
        continue;  // The launches below ask for both.
      }
      const Op forced = forced_variant(original.op(), variant.traits, std::to_string(count++));
      gpu.engine.register_op(forced);
      for (const std::int64_t m : {1, 3, 8, 9, 16}) {
        if (m > variant.traits["TOKENS"]) {
          continue;
        }
        for (const bool pdl : {true, false}) {
          CAPTURE(to_string(variant), m, pdl);
          const Call call(form, with_tokens(form, shape, m));
          REQUIRE(call.run(values, pdl, forced.name.c_str()) == "");
        }
      }
    }
  }
  REQUIRE(count == 4);
}

TEST_CASE("A wo_a op keeps zero rows, NaN, infinities and subnormals apart", "[wo_a]") {
  const WoAShape shape{16, 2, 64, 512};
  const auto row = size(shape.g * shape.d);
  std::vector<Bf16> x = random_bf16(16 * row, 1.0F, 7);
  const auto fill = [&](std::size_t token, Bf16 bits) {
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(token * row), row, bits);
  };
  fill(1, 0x0000);
  fill(2, 0x8000);
  fill(3, 0x0001);           // The smallest subnormal.
  x[4 * row + 17] = 0x7FC0;  // One NaN, in the first group alone.
  x[5 * row + 3] = 0x7F80;   // +inf
  x[6 * row + 9] = 0xFF80;   // -inf
  fill(7, 0x7F7F);           // The largest finite value: overflows.
  std::mt19937 generator(11);
  std::generate(x.begin() + static_cast<std::ptrdiff_t>(8 * row), x.end(),
                [&] { return static_cast<Bf16>(generator()); });  // Any bits at all.
  std::vector<Bf16> w = random_bf16(size(shape.g * shape.r * shape.d), 1.0F, 8);
  std::fill_n(w.begin(), shape.d, Bf16{0});  // inf * 0 is NaN: one NaN in a group of outputs.
  const Values values(shape, x, w);
  for (const Form form : kForms) {
    CAPTURE(name_of(form));
    const Call call(form, with_tokens(form, shape, 16));
    REQUIRE(call.run(values, true) == "");
    REQUIRE(call.run(values, false) == "");
  }
}

TEST_CASE("Tokens of wo_a_bf16_small_batch may lie more than 2^31 elements apart", "[wo_a]") {
  const WoAShape shape{3, 1, 64, 512};
  const std::int64_t gap = std::int64_t{1} << 30;
  REQUIRE(Call(Form::kBatch, shape, gap).run(Values(shape, 1.0F, 43), true) == "");
}

TEST_CASE("Scales of wo_a_bf16_small_batch_mxfp8 may begin at any byte", "[wo_a][sanitize]") {
  const WoAShape shape{5, 1, 64, 512};
  REQUIRE(Call(Form::kMxfp8, shape, 0, 1).run(Values(shape, 1.0F, 41), true) == "");
}

TEST_CASE("A wo_a op replays from a graph on inputs that change between replays", "[wo_a]") {
  Gpu& gpu = Gpu::instance();
  const WoAShape shape{16, 2, 64, 2048};
  for (const Form form : kForms) {
    for (const std::int64_t m : {2, 7, 16}) {
      for (const bool pdl : {true, false}) {
        const Call call(form, with_tokens(form, shape, m));
        REQUIRE(call.run(Values(shape, 1.0F, 1), pdl) == "");
        const Graph graph(gpu.stream, [&] { call.launch(pdl); });
        for (const std::uint64_t seed : {2U, 3U}) {
          const Values values(shape, 1.0F, seed);
          call.set(values);
          call.poison(0x5A);
          graph.launch(gpu.stream);
          gpu.stream.synchronize();
          CAPTURE(name_of(form), m, pdl, seed);
          REQUIRE(call.difference(values) == "");
        }
      }
    }
  }
}

TEST_CASE("A wo_a op of no tokens launches nothing and touches nothing", "[wo_a][sanitize]") {
  const WoAShape shape{0, 2, 64, 512};
  for (const Form form : {Form::kBatch, Form::kMxfp8}) {
    const Call call(form, shape);
    call.poison(0xA5);
    call.launch(true);
    Gpu::instance().stream.synchronize();
    REQUIRE(call.difference(Values({0, 2, 64, 512}, std::vector<Bf16>(1024),
                                   std::vector<Bf16>(2 * 64 * 512))) == "");
  }
}

TEST_CASE("A wo_a op waits for late tokens and, when the call says so, for late weights", "[pdl]") {
  Gpu& gpu = Gpu::instance();
  const Form form = GENERATE(from_range(std::begin(kForms), std::end(kForms)));
  const bool late_weights = GENERATE(false, true);
  const WoAShape shape = with_tokens(form, {7, 2, 64, 1024}, 7);
  CAPTURE(name_of(form), late_weights);
  const Values first(shape, 1.0F, 1);
  const Values second(shape, 1.0F, 3);
  const Call source(form, shape);
  const Call other(form, shape);
  source.set(first);
  other.set(second);
  const Call call(form, shape);
  LaunchOptions options;
  options.constants_ready = !late_weights;
  const auto record = [&] {
    if (late_weights) {
      late_copy(other.w().data(), call.w().data(), call.w().bytes(), 0);
      late_copy(source.x().data(), call.x().data(), call.x().bytes(), 0);
      late_copy(source.w().data(), call.w().data(), call.w().bytes(), kDelayNs);
    } else {
      late_copy(source.x().data(), call.x().data(), call.x().bytes(), kDelayNs);
    }
    call.launch(options);
    late_copy(other.x().data(), call.x().data(), call.x().bytes(), 0);  // Must not be seen.
  };
  const auto round = [&](const std::function<void()>& go) {
    call.set(first);
    call.x().fill(0xFF);
    go();
    gpu.stream.synchronize();
    REQUIRE(call.difference(first) == "");
  };
  for (int i = 0; i < 10; ++i) {
    round(record);
  }
  const Graph graph(gpu.stream, record);
  for (int i = 0; i < 10; ++i) {
    round([&] { graph.launch(gpu.stream); });
  }
}

TEST_CASE("wo_a_bf16_small_batch and mxfp8_quantize in a chain give the fused op's bytes",
          "[pdl]") {
  Gpu& gpu = Gpu::instance();
  const std::int64_t m = GENERATE(2, 8, 16);
  CAPTURE(m);
  const WoAShape shape{m, 2, 64, 1024};
  const std::int64_t width = shape.g * shape.r;
  const Values values(shape, 1.0F, 5);
  const Call source(Form::kBatch, shape);
  source.set(values);
  const Call batch(Form::kBatch, shape);
  const GuardedBuffer q(size(m * width));
  const GuardedBuffer sf(reference::mxfp8_scale_bytes(m, width));
  const reference::Mxfp8 want = reference::mxfp8_quantize(values.y.data(), width, m, width);
  for (int i = 0; i < 10; ++i) {
    batch.set(values);
    batch.x().fill(0xFF);
    q.poison(0xA5);
    sf.poison(0xA5);
    late_copy(source.x().data(), batch.x().data(), batch.x().bytes(), kDelayNs);
    batch.launch(true);
    gpu.engine.launch("mxfp8_quantize",
                      {Tensor(batch.y().data(), DType::kBF16, {m, width}),
                       Tensor(q.data(), DType::kE4M3, {m, width}),
                       Tensor(sf.data(), DType::kE8M0, {static_cast<std::int64_t>(sf.bytes())})},
                      gpu.stream.get());
    gpu.stream.synchronize();
    REQUIRE(batch.difference(values) == "");
    REQUIRE(q.download() == want.q);
    REQUIRE(sf.download() == want.sf);
  }
}

}  // namespace
}  // namespace kiln::gpu
