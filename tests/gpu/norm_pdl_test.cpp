// Programmatic dependent launch of the norms, docs/kernel_contracts.md section 0. The producer in
// these chains releases its dependents at once and stores late.
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/norm_case.hpp"
#include "tests/gpu/support/replayed.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

constexpr std::int64_t kWidth = 1280;

/// Two sets of rows of one op, and a batch of m rows whose x is copied in by the chain.
class Chain {
 public:
  Chain(const NormOp& op, std::int64_t m)
      : m_(m),
        first(op, kWidth, 1.0F, DType::kF32, 1),
        second(op, kWidth, 1.0F, DType::kF32, 2),
        batch(first, m),
        batch2(first, m) {
    batch.set_rows(first, 0);  // Also pre, which both sets of rows are then weighed by.
    batch2.set_rows(first, 0);
    Gpu::instance().stream.synchronize();
  }

  void copy_x(const NormData& from, const NormBatch& to, std::int64_t delay_ns) const {
    late_copy(from.x_device->data(), to.x().data(), static_cast<std::size_t>(m_ * from.width()) * 2,
              delay_ns);
  }

  /// Runs `record` eagerly and as a replayed graph, outputs and x poisoned, then `check`.
  void run(const std::function<void()>& record, const std::function<void()>& check) {
    const auto reset = [&] {
      batch.x().fill(0xFF);
      batch.poison(0xA5);
      batch2.poison(0x5A);
    };
    eagerly_and_replayed(reset, record, check);
  }

 private:
  std::int64_t m_;

 public:
  NormData first;
  NormData second;
  NormBatch batch;
  NormBatch batch2;
};

constexpr std::int64_t kRows[] = {1, 8, 130};

TEST_CASE("A norm sees what a producer that released it early stores late", "[pdl]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(op.name, m);
  Chain chain(op, m);
  chain.run(
      [&] {
        chain.copy_x(chain.first, chain.batch, kDelayNs);
        chain.batch.launch();
      },
      [&] { REQUIRE(chain.batch.check(chain.first, 0) == ""); });
}

TEST_CASE("A norm's rows are not overwritten by the next kernel before it has read them", "[pdl]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(op.name, m);
  Chain chain(op, m);
  chain.run(
      [&] {
        chain.copy_x(chain.first, chain.batch, kDelayNs);
        chain.batch.launch();
        chain.copy_x(chain.second, chain.batch, 0);
      },
      [&] { REQUIRE(chain.batch.check(chain.first, 0) == ""); });
}

TEST_CASE(
    "A norm reads weights that the previous kernel writes after the wait when the call says so",
    "[pdl]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  if (!op.norm) {
    return;
  }
  CAPTURE(op.name);
  Chain chain(op, 8);
  const Buffer w(kWidth * 2);
  LaunchOptions late;
  late.constants_ready = false;
  chain.run(
      [&] {
        chain.copy_x(chain.first, chain.batch, 0);
        late_copy(chain.second.w_device->data(), w.data(), w.bytes(), 0);
        late_copy(chain.first.w_device->data(), w.data(), w.bytes(), kDelayNs);
        chain.batch.launch(late, nullptr, &w);
      },
      [&] { REQUIRE(chain.batch.check(chain.first, 0) == ""); });
}

// With one row, all but 40 of a tile's scale bytes are padding, which CTAs of their own zero.
TEST_CASE("Scales and their padding are not written before a late reader has copied the old ones",
          "[pdl]") {
  const NormOp op = GENERATE(from_range(std::begin(kNormOps), std::end(kNormOps)));
  if (!op.quantizes) {
    return;
  }
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(op.name, m);
  Chain chain(op, m);
  const std::vector<std::uint8_t> old(chain.batch.sf().bytes(), 0xA5);
  const Buffer copied(old.size());
  chain.run(
      [&] {
        chain.copy_x(chain.first, chain.batch, 0);
        late_copy(chain.batch.sf().data(), copied.data(), old.size(), kDelayNs);
        chain.batch.launch();
      },
      [&] {
        std::vector<std::uint8_t> got(old.size());
        copied.download(got.data(), got.size());
        REQUIRE(got == old);
        REQUIRE(chain.batch.check(chain.first, 0) == "");
      });
}

TEST_CASE("A norm and mxfp8_quantize in a chain of three give the fused op's bits", "[pdl]") {
  const NormOp fused = GENERATE(kNormOps[2], kNormOps[4]);
  const std::int64_t m = GENERATE(from_range(std::begin(kRows), std::end(kRows)));
  CAPTURE(fused.name, m);
  const NormOp norm{fused.streams ? "hc_combine_norm" : "rmsnorm", true, fused.streams, false};
  Gpu& gpu = Gpu::instance();
  Chain chain(fused, m);
  const NormData unfused(norm, kWidth, 1.0F, DType::kF32, 1);
  NormBatch plain(unfused, m);
  plain.set_rows(unfused, 0);
  gpu.stream.synchronize();
  const Tensor y(plain.y().data(), DType::kBF16, {m, kWidth});
  const Tensor q(chain.batch.q().data(), DType::kE4M3, {m, kWidth});
  const Tensor sf(chain.batch.sf().data(), DType::kE8M0,
                  {static_cast<std::int64_t>(chain.batch.sf().bytes())});
  chain.run(
      [&] {
        late_copy(unfused.x_device->data(), plain.x().data(),
                  static_cast<std::size_t>(m * unfused.width()) * 2, kDelayNs);
        plain.launch();
        gpu.engine.launch("mxfp8_quantize", {y, q, sf}, gpu.stream.get());
        late_copy(plain.y().data(), chain.batch.y().data(), plain.y().bytes(), 0);
      },
      [&] { REQUIRE(chain.batch.check(chain.first, 0) == ""); });
}

}  // namespace
}  // namespace kiln::gpu
