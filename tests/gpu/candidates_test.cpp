// docs/kernel_contracts.md, sections 5 and 6: the candidate ops, bit for bit against the CPU
// reference. The steps run one after the other, each on what the one before it gave, and beside
// them candidate_block_logits in both of its forms.
#include "reference/candidates.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/integers.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t size(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

enum class Draw { kNormal, kSpecial, kFew, kBits, kNothing, kNarrow, kEqual };

float draw_one(Draw draw, std::mt19937_64& generator) {
  const float special[] = {-kInf, kInf, kNan, -kNan, 0.0F, -0.0F, 1.0F, -1.0F};
  std::normal_distribution<float> normal;
  switch (draw) {
    case Draw::kNormal:
      return normal(generator);
    case Draw::kSpecial:
      return special[generator() % 8];
    case Draw::kFew:
      return static_cast<float>(generator() % 3) - 1;
    case Draw::kBits: {
      const auto bits = static_cast<std::uint32_t>(generator());
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      return value;
    }
    case Draw::kNothing:
      return -kInf;
    case Draw::kNarrow:
      return 1 + 1e-6F * static_cast<float>(generator() % 50);
    case Draw::kEqual:
      break;
  }
  return 2.5F;
}

struct Shape {
  std::int64_t rows;
  std::int64_t width;
  std::int64_t block;
  std::int64_t topk;
  std::int64_t gap = 0;   ///< Elements between rows of logits.
  std::int64_t skew = 0;  ///< Elements that the first row lies behind a 16-byte boundary.
  bool wide = true;       ///< seq_lens are int64.

  std::int64_t blocks() const { return (width + block - 1) / block; }
  std::int64_t k() const { return std::min(topk, blocks()); }
  reference::BlockShape reference() const { return {width, block}; }
};

/// Inputs on the host, and what every step gives.
struct Values {
  Values(const Shape& shape, std::vector<float> row_logits, std::vector<std::int64_t> row_lens)
      : logits(std::move(row_logits)), lens(std::move(row_lens)) {
    scores = reference::candidate_block_scores(logits, lens, shape.reference());
    selected = reference::candidate_select_blocks(scores.scores, shape.blocks(), shape.k());
    keep = reference::publish_candidate_mask(selected, shape.k(), shape.reference());
    consumed = reference::candidate_consume(logits, lens, keep, shape.width);
  }
  /// Lengths are 0, negative, beyond the row, or anything between.
  static Values random(const Shape& shape, Draw draw, std::uint64_t seed) {
    std::mt19937_64 generator(seed);
    std::vector<float> logits(size(shape.rows * shape.width));
    std::generate(logits.begin(), logits.end(), [&] { return draw_one(draw, generator); });
    std::vector<std::int64_t> lens(size(shape.rows));
    for (std::int64_t& length : lens) {
      const std::int64_t odd[] = {0, -3, shape.width, shape.width + 9};
      length =
          generator() % 2 == 0
              ? odd[generator() % 4]
              : static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(shape.width));
    }
    return {shape, std::move(logits), std::move(lens)};
  }

  std::vector<float> logits;
  std::vector<std::int64_t> lens;
  reference::BlockScores scores;
  reference::SelectedBlocks selected;
  std::vector<std::uint8_t> keep;
  std::vector<float> consumed;
};

template <class T>
std::string difference(const char* name, const GuardedBuffer& buffer, const std::vector<T>& want,
                       bool nan_bits_count = true) {
  if (!buffer.canaries_intact()) {
    return std::string("a canary beside ") + name + " was overwritten";
  }
  const std::vector<std::uint8_t> bytes = buffer.download();
  std::vector<T> got(want.size());
  if (!got.empty()) {
    std::memcpy(got.data(), bytes.data(), got.size() * sizeof(T));
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool both_nan = got[i] != got[i] && want[i] != want[i] && !nan_bits_count;
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0 && !both_nan) {
      return std::string(name) + "[" + std::to_string(i) + "]: got " + std::to_string(got[i]) +
             ", want " + std::to_string(want[i]);
    }
  }
  return "";
}

/// Names of the ops, which a test may replace by forms of its own.
struct Names {
  std::string select = "candidate_select_blocks";
  std::string logits = "candidate_block_logits";
};

/// Device memory of all the ops' calls on one shape.
class Pipeline {
 public:
  explicit Pipeline(const Shape& shape)
      : shape_(shape),
        stride_(shape.width + shape.gap),
        logits_(size(shape.rows * stride_ + shape.skew) * 4),
        lens_(std::vector<std::int64_t>(size(shape.rows)), shape.wide),
        out_(elements() * 4),
        scores_(size(shape.rows * shape.blocks()) * 4),
        indices_(size(shape.rows * shape.k()) * 4),
        values_(indices_.bytes()),
        keep_(elements()),
        source_out_(elements() * 4),
        source_keep_(elements()),
        consumed_(elements() * 4),
        workspace_(workspace_bytes()) {}

  void set(const Values& values) const {
    std::vector<float> spread(size(shape_.rows * stride_), kNan);
    for (std::int64_t row = 0; row < shape_.rows; ++row) {
      std::copy_n(values.logits.begin() + row * shape_.width, shape_.width,
                  spread.begin() + row * stride_);
    }
    if (!spread.empty()) {
      logits_.upload(spread.data(), spread.size() * 4, size(shape_.skew) * 4);
    }
    lens_.set(values.lens);
    poison(0xA5);
  }
  void poison(std::uint8_t byte) const {
    for (const GuardedBuffer* const buffer : outputs()) {
      buffer->poison(byte);
    }
    workspace_.fill(byte);
  }

  void launch_steps(bool pdl, const Names& names = {}) const {
    launch("candidate_block_scores",
           {logits(), lens(), shape_.block, floats(out_, shape_.width),
            floats(scores_, shape_.blocks())},
           pdl);
    launch(names.select, {floats(scores_, shape_.blocks()), indices(), floats(values_, shape_.k())},
           pdl);
    launch("publish_candidate_mask",
           {indices(), floats(values_, shape_.k()), shape_.block, mask(keep_)}, pdl);
  }
  void launch_source(bool pdl, const Names& names = {}) const {
    launch(names.logits,
           {logits(), lens(), shape_.topk, shape_.block, Arg(), floats(source_out_, shape_.width),
            mask(source_keep_)},
           pdl);
  }
  /// On what the steps have published.
  void launch_consumer(bool pdl) const {
    launch("candidate_block_logits",
           {logits(), lens(), shape_.topk, shape_.block, mask(keep_),
            floats(consumed_, shape_.width), Arg()},
           pdl);
  }
  void launch_all(bool pdl, const Names& names = {}) const {
    launch_steps(pdl, names);
    launch_source(pdl, names);
    launch_consumer(pdl);
  }

  std::string run(const Values& values, bool pdl, const Names& names = {}) const {
    set(values);
    launch_all(pdl, names);
    Gpu::instance().stream.synchronize();
    return problems(values);
  }
  std::string problems(const Values& values) const {
    for (const std::string& problem :
         {difference("out", out_, values.scores.out),
          difference("scores", scores_, values.scores.scores, false),
          difference("indices", indices_, values.selected.indices),
          difference("values", values_, values.selected.values, false),
          difference("keep", keep_, values.keep),
          difference("out of the source", source_out_, values.scores.out),
          difference("keep of the source", source_keep_, values.keep),
          difference("out of the consumer", consumed_, values.consumed)}) {
      if (!problem.empty()) {
        return problem;
      }
    }
    return "";
  }

  const Buffer& logits_buffer() const { return logits_; }
  const Integers& lens_array() const { return lens_; }

 private:
  std::size_t elements() const { return size(shape_.rows * shape_.width); }
  std::size_t workspace_bytes() const {
    Gpu& gpu = Gpu::instance();
    const Tensor a = logits();
    const Tensor b = lens();
    const Tensor c = floats(source_out_, shape_.width);
    const Tensor d = mask(source_keep_);
    const std::vector<Arg> args = {a, b, shape_.topk, shape_.block, Arg(), c, d};
    return gpu.engine.workspace_bytes(gpu.engine.op("candidate_block_logits"), args);
  }
  std::vector<const GuardedBuffer*> outputs() const {
    return {&out_, &scores_, &indices_, &values_, &keep_, &source_out_, &source_keep_, &consumed_};
  }

  Tensor logits() const {
    return {static_cast<float*>(logits_.data()) + shape_.skew,
            DType::kF32,
            {shape_.rows, shape_.width},
            {stride_, 1}};
  }
  Tensor lens() const { return lens_.tensor({shape_.rows}); }
  Tensor floats(const GuardedBuffer& buffer, std::int64_t columns) const {
    return {buffer.data(), DType::kF32, {shape_.rows, columns}};
  }
  Tensor indices() const { return {indices_.data(), DType::kI32, {shape_.rows, shape_.k()}}; }
  Tensor mask(const GuardedBuffer& buffer) const {
    return {buffer.data(), DType::kBool, {shape_.rows, shape_.width}};
  }

  /// A tensor or a scalar, held until the launch.
  struct Value {
    Value(const Tensor& one) : tensors{one} {}
    Value(std::int64_t one) : arg(one) {}
    Value(const Arg& one) : arg(one) {}
    std::vector<Tensor> tensors;
    Arg arg;
  };
  void launch(const std::string& op, const std::vector<Value>& values, bool pdl) const {
    std::vector<Arg> args;
    for (const Value& value : values) {
      args.push_back(value.tensors.empty() ? value.arg : Arg(value.tensors.front()));
    }
    LaunchOptions options;
    options.pdl = pdl;
    options.workspace = workspace_.data();
    options.workspace_bytes = workspace_.bytes();
    Gpu& gpu = Gpu::instance();
    gpu.engine.launch(gpu.engine.op(op), args, gpu.stream.get(), options);
  }

  Shape shape_;
  std::int64_t stride_;
  Buffer logits_;
  Integers lens_;
  GuardedBuffer out_, scores_, indices_, values_, keep_, source_out_, source_keep_, consumed_;
  Buffer workspace_;
};

std::string run(const Shape& shape, Draw draw, std::uint64_t seed) {
  const Values values = Values::random(shape, draw, seed);
  const Pipeline pipeline(shape);
  for (const bool pdl : {true, false}) {
    const std::string problem = pipeline.run(values, pdl);
    if (!problem.empty()) {
      return problem;
    }
  }
  return "";
}

TEST_CASE("Row lengths in blocks agree with the reference at every row count",
          "[candidates][sanitize]") {
  Gpu& gpu = Gpu::instance();
  for (const std::int64_t rows :
       {1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097}) {
    std::mt19937_64 generator(size(rows));
    std::vector<std::int64_t> values(size(rows));
    for (std::int64_t& value : values) {
      value = static_cast<std::int64_t>(generator() % 300'000) - 1000;
    }
    values[0] = std::numeric_limits<std::int32_t>::max();
    for (const bool wide : {true, false}) {
      const Integers lens(values, wide);
      const GuardedBuffer nblocks(size(rows) * 4);
      const GuardedBuffer valid(size(rows) * 4);
      for (const std::int64_t block : {1, 7, 8, 64, 1 << 30}) {
        for (const std::int64_t topk : {std::int64_t{1}, std::int64_t{2048}}) {
          const auto want = reference::candidate_row_lens(values, topk, block);
          LaunchOptions options;
          options.pdl = block % 2 == 0;
          nblocks.poison(0xA5);
          valid.poison(0xA5);
          gpu.engine.launch(
              "candidate_row_lens",
              {lens.tensor({rows}), topk, block, Tensor(nblocks.data(), DType::kI32, {rows}),
               Tensor(valid.data(), DType::kI32, {rows})},
              gpu.stream.get(), options);
          gpu.stream.synchronize();
          CAPTURE(rows, wide, block, topk);
          REQUIRE(difference("nblocks", nblocks, want.nblocks) == "");
          REQUIRE(difference("valid", valid, want.valid) == "");
        }
      }
    }
  }
}

TEST_CASE("Scores, selection and mask agree with the reference at every row count",
          "[candidates]") {
  for (const std::int64_t rows :
       {1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097}) {
    const Shape shape{rows, rows > 97 ? 200 : 4096, 8, rows > 97 ? 9 : 100, rows % 4 * 4,
                      0,    rows % 2 == 0};
    CAPTURE(rows);
    REQUIRE(run(shape, Draw::kNormal, size(rows)) == "");
  }
}

TEST_CASE("Blocks of any size and rows of any width and alignment agree with the reference",
          "[candidates][sanitize]") {
  for (const std::int64_t block :
       {1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 33, 64, 127, 128, 129, 300, 2047, 2048, 2049, 5000}) {
    for (const std::int64_t width : {1, 5, 1003, 4100}) {
      const Shape shape{3, width, block, block % 5 + 1, block % 6, width % 4, block % 2 == 0};
      CAPTURE(block, width);
      REQUIRE(run(shape, Draw::kSpecial, size(block * width)) == "");
    }
  }
}

// Three blocks of 5,000 fill a tile, so that of two CTAs that share a row of 31,000 the first has
// two tiles. In even rows the first block of the one is selected and that of the other is not.
Values several_tiles(const Shape& shape) {
  std::vector<std::int64_t> lens(size(shape.rows), shape.width);
  for (std::size_t row = 0; row < lens.size(); row += 2) {
    lens[row] = 20'000;
  }
  const std::vector<float> logits(size(shape.rows * shape.width), 1.0F);
  Values values(shape, logits, lens);
  REQUIRE(values.keep[0] == 1);
  REQUIRE(values.keep[30'000] == 0);
  REQUIRE(values.keep[size(shape.width) + 30'000] == 1);
  return values;
}

TEST_CASE("A CTA publishes more than one tile of a row", "[candidates][sanitize]") {
  const Shape shape{2, 31'000, 5000, 3};
  const Values values = several_tiles(shape);
  const Pipeline pipeline(shape);
  REQUIRE(pipeline.run(values, true) == "");
  REQUIRE(pipeline.run(values, false) == "");
}

TEST_CASE("So it does in the steps that take rows for which one kernel has no room",
          "[candidates]") {
  const Shape shape{140, 31'000, 5000, 3};
  REQUIRE(Pipeline(shape).run(several_tiles(shape), true) == "");
}

TEST_CASE("A selection of the timed shape and of wider ones agrees with the reference",
          "[candidates]") {
  for (const Draw draw : {Draw::kNormal, Draw::kBits, Draw::kFew, Draw::kNarrow}) {
    CAPTURE(static_cast<int>(draw));
    REQUIRE(run({4, 131'072, 8, 2048}, draw, 1) == "");
    REQUIRE(run({1, 131'072, 1, 2048}, draw, 2) == "");
    REQUIRE(run({70, 20'000, 1, 2048}, draw, 3) == "");
    REQUIRE(run({2, 300'003, 1, 5000, 1, 1}, draw, 4) == "");  // Read again at every step.
    REQUIRE(run({30, 131'072, 64, 200}, draw, 5) == "");       // Too many rows for one kernel.
  }
}

TEST_CASE(
    "NaN come first, then +inf, and rows of one value, of -inf or of NaN are selected by index",
    "[candidates]") {
  for (const Draw draw : {Draw::kEqual, Draw::kNothing, Draw::kSpecial, Draw::kFew}) {
    for (const std::int64_t topk : {1, 2, 511, 512, 513, 1023, 1024, 8192, 40'000}) {
      const Shape shape{3, 40'000, 4, topk, 4};
      CAPTURE(static_cast<int>(draw), topk);
      REQUIRE(run(shape, draw, size(topk)) == "");
    }
  }
  const Shape shape{2, 64, 4, 3};
  std::vector<float> logits(128, kNan);
  const Values values(shape, logits, {64, 5});
  const Pipeline pipeline(shape);
  REQUIRE(pipeline.run(values, true) == "");
  // NaN fill the slots of row 0, and publish nothing; in row 1 the last visible block has one.
  REQUIRE(std::count(values.keep.begin(), values.keep.end(), 1) == 4);
}

/// The op with this many CTAs for each row in kernel `kernel`; where they take dynamic shared
/// memory, it is enough for blocks of one position.
std::string with_ctas(const std::string& name, std::size_t kernel, std::uint32_t ctas) {
  Gpu& gpu = Gpu::instance();
  Op op = gpu.engine.op(name).op();
  op.name += "_kernel_" + std::to_string(kernel) + "_ctas_" + std::to_string(ctas);
  op.kernels[kernel].geometry = [inner = op.kernels[kernel].geometry, ctas](const Problem& problem,
                                                                            const Traits& traits) {
    Geometry geometry = inner(problem, traits);
    geometry.grid.x = geometry.grid.x / geometry.cluster.x * ctas;
    if (geometry.dynamic_shared_bytes != 0) {
      geometry.dynamic_shared_bytes =
          static_cast<std::uint32_t>((problem.dim("width") / ctas + 16) * 4);
    }
    geometry.cluster.x = ctas;
    return geometry;
  };
  register_once(op);
  return op.name;
}

// One case for each number, since racecheck takes minutes for them together.
TEMPLATE_TEST_CASE_SIG("A row's selection is the same however many CTAs share it",
                       "[candidates][sanitize]", ((std::uint32_t CTAS), CTAS), 1, 2, 4, 8) {
  const std::vector<Shape> one_kernel = {
      {3, 20'000, 1, 2048}, {2, 32'768, 8, 900}, {5, 100, 3, 7}, {2, 4, 8, 3}};
  const std::vector<Shape> steps = {{1, 300'003, 1, 2048}, {140, 1'000, 2, 100}, {133, 4, 8, 3}};
  const std::string select = with_ctas("candidate_select_blocks", 0, CTAS);
  const auto check = [&](const std::vector<Shape>& shapes, std::size_t kernel) {
    const Names names = {select, with_ctas("candidate_block_logits", kernel, CTAS)};
    for (const Shape& shape : shapes) {
      for (const Draw draw : {Draw::kNormal, Draw::kFew}) {
        const Values values = Values::random(shape, draw, 9);
        CAPTURE(shape.width, static_cast<int>(draw));
        REQUIRE(Pipeline(shape).run(values, true, names) == "");
      }
    }
  };
  check(one_kernel, 0);
  check(steps, 2);
}

TEST_CASE("Candidates replay from a graph on inputs that change between replays", "[candidates]") {
  Gpu& gpu = Gpu::instance();
  for (const std::int64_t rows : {1, 4, 40}) {
    for (const bool pdl : {true, false}) {
      const Shape shape{rows, 20'000, 8, 500};
      const Pipeline pipeline(shape);
      REQUIRE(pipeline.run(Values::random(shape, Draw::kNormal, 1), pdl) == "");
      const Graph graph(gpu.stream, [&] { pipeline.launch_all(pdl); });
      for (const std::uint64_t seed : {2U, 3U}) {
        const Values values =
            Values::random(shape, seed == 2 ? Draw::kSpecial : Draw::kNormal, seed);
        pipeline.set(values);
        graph.launch(gpu.stream);
        gpu.stream.synchronize();
        CAPTURE(rows, pdl, seed);
        REQUIRE(pipeline.problems(values) == "");
      }
    }
  }
}

TEST_CASE("Candidates of no rows launch nothing and touch nothing", "[candidates][sanitize]") {
  const Shape shape{0, 64, 8, 4};
  const Values values(shape, {}, {});
  REQUIRE(Pipeline(shape).run(values, true) == "");
}

TEST_CASE("Rows of logits may lie more than 2^31 elements apart", "[candidates]") {
  const Shape shape{3, 1000, 8, 20, (std::int64_t{1} << 30) + 4};
  const Values values = Values::random(shape, Draw::kNormal, 5);
  const Buffer far(size(2 * (shape.width + shape.gap) + shape.width) * 4);
  for (std::int64_t row = 0; row < 3; ++row) {
    far.upload(values.logits.data() + row * shape.width, size(shape.width) * 4,
               size(row * (shape.width + shape.gap)) * 4);
  }
  const Integers lens(values.lens, true);
  const GuardedBuffer out(size(3 * shape.width) * 4);
  const GuardedBuffer scores(size(3 * shape.blocks()) * 4);
  out.poison(0xA5);
  scores.poison(0xA5);
  Gpu& gpu = Gpu::instance();
  gpu.engine.launch(
      "candidate_block_scores",
      {Tensor(far.data(), DType::kF32, {3, shape.width}, {shape.width + shape.gap, 1}),
       lens.tensor({3}), shape.block, Tensor(out.data(), DType::kF32, {3, shape.width}),
       Tensor(scores.data(), DType::kF32, {3, shape.blocks()})},
      gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(difference("out", out, values.scores.out) == "");
  REQUIRE(difference("scores", scores, values.scores.scores, false) == "");
}

TEST_CASE(
    "An index that is no block publishes nothing, and a block selected twice is published once",
    "[candidates]") {
  const reference::SelectedBlocks selected = {{-1, 500, 3, 3, 2'000'000'000, 0},
                                              {1, 1, 1, 2, 1, -kInf}};
  const Buffer indices(24);
  const Buffer values(24);
  indices.upload(selected.indices.data(), 24);
  values.upload(selected.values.data(), 24);
  const GuardedBuffer keep(2 * 4001);
  keep.poison(0xA5);
  Gpu& gpu = Gpu::instance();
  gpu.engine.launch(
      "publish_candidate_mask",
      {Tensor(indices.data(), DType::kI32, {2, 3}), Tensor(values.data(), DType::kF32, {2, 3}), 8,
       Tensor(keep.data(), DType::kBool, {2, 4001})},
      gpu.stream.get());
  gpu.stream.synchronize();
  REQUIRE(difference("keep", keep, reference::publish_candidate_mask(selected, 3, {4001, 8})) ==
          "");
}

TEST_CASE(
    "Candidate steps in a chain wait for each other, and inputs are not overwritten too early",
    "[pdl][candidates]") {
  Gpu& gpu = Gpu::instance();
  const std::int64_t rows = GENERATE(1, 4, 30);
  CAPTURE(rows);
  const Shape shape{rows, 20'000, 8, 500};
  const Values values = Values::random(shape, Draw::kNormal, 1);
  const Pipeline pipeline(shape);
  const std::size_t bytes = values.logits.size() * 4;
  const Buffer source(bytes);
  const Buffer other(bytes);
  source.upload(values.logits.data(), bytes);
  other.fill(0x3C);
  const auto record = [&] {
    late_copy(source.data(), pipeline.logits_buffer().data(), bytes, kDelayNs);
    pipeline.launch_all(true);
    late_copy(other.data(), pipeline.logits_buffer().data(), bytes, 0);
  };
  const auto round = [&](const std::function<void()>& go) {
    pipeline.set(values);
    pipeline.logits_buffer().fill(0xFF);
    go();
    gpu.stream.synchronize();
    REQUIRE(pipeline.problems(values) == "");
  };
  for (int i = 0; i < 10; ++i) {
    round(record);
  }
  const Graph graph(gpu.stream, record);
  for (int i = 0; i < 10; ++i) {
    round([&] { graph.launch(gpu.stream); });
  }
}

}  // namespace
}  // namespace kiln::gpu
