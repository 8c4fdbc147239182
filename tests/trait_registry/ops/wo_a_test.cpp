// The descriptions of the wo_a ops against their contract.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/ops/op_fixture.hpp"

namespace kiln::registry {
namespace {

using test::at;

struct Call {
  Call(const std::string& op, std::int64_t m, std::int64_t g, std::int64_t r, std::int64_t d)
      : name(op),
        x(at(0), DType::kBF16, {m, g, d}),
        w(at(1), DType::kBF16, {g, r, d}),
        y(at(2), DType::kBF16, {m, g, r}),
        q(at(3), DType::kE4M3, {m, g * r}),
        sf(at(4), DType::kE8M0, {(m + 127) / 128 * 128 * ((g * r / 32 + 3) / 4 * 4)}) {}

  std::vector<Arg> args() const {
    return name == "wo_a_bf16_small_batch_mxfp8" ? std::vector<Arg>{x, w, q, sf}
                                                 : std::vector<Arg>{x, w, y};
  }

  std::string name;
  Tensor x, w, y, q, sf;
};

const std::vector<std::string> kBatched = {"wo_a_bf16_small_batch", "wo_a_bf16_small_batch_mxfp8"};

TEST_CASE("The wo_a ops take the tokens and sizes of their contract, w being constant") {
  const test::OpsFixture f;
  CHECK(f.error(Call("wo_a_bf16_gemv", 1, 2, 1024, 4096)).empty());
  CHECK(f.error(Call("wo_a_bf16_gemv", 1, 3, 7, 256)).empty());
  for (const std::string& name : kBatched) {
    for (const std::int64_t m : {0, 1, 2, 8, 9, 16}) {
      CAPTURE(name, m);
      CHECK(f.error(Call(name, m, 2, 1024, 4096)).empty());
      CHECK(f.error(Call(name, m, 3, 64, 512)).empty());
    }
    Call strided(name, 4, 2, 64, 512);
    strided.x = Tensor(at(0), DType::kBF16, {4, 2, 512}, {1048, 520, 1});
    CHECK(f.error(strided).empty());
    CHECK(f.op(name).constants_switch);
    CHECK(enumerate(f.op(name), parse_target("sm_90a")).size() == 4);
  }
  CHECK(f.op("wo_a_bf16_gemv").constants_switch);
  CHECK(enumerate(f.op("wo_a_bf16_gemv"), parse_target("sm_90a")).size() == 2);
}

TEST_CASE("Other tokens and sizes are errors that say what is expected") {
  const test::OpsFixture f;
  CHECK(f.error(Call("wo_a_bf16_gemv", 2, 2, 64, 512)).find("expected shape [1, g, d]") !=
        std::string::npos);
  CHECK(f.error(Call("wo_a_bf16_gemv", 1, 2, 64, 128)) ==
        "wo_a_bf16_gemv: d must be a positive multiple of 256, found 128");
  for (const std::string& name : kBatched) {
    CAPTURE(name);
    CHECK(f.error(Call(name, 17, 2, 64, 512)) == name + ": m must be at most 16, found 17");
    CHECK(f.error(Call(name, 2, 2, 96, 512)) ==
          name + ": r must be a positive multiple of 64, found 96");
    CHECK(f.error(Call(name, 2, 2, 64, 768)) ==
          name + ": d must be a positive multiple of 512, found 768");
    const bool batched = name == kBatched[0];
    CHECK(
        f.error(Call(name, 2, 1 << 22, 64, 512)) ==
        (batched ? std::string() : name + ": g * r must be at most 268435455, found 4194304 * 64"));
    CHECK(f.error(Call(name, 2, (1 << 22) - 1, 64, 512)).empty());
    Call off(name, 2, 2, 64, 512);
    off.x = Tensor(at(0), DType::kBF16, {2, 2, 512}, {1028, 512, 1});
    CHECK(f.error(off).find("each row to start on a 16-byte boundary") != std::string::npos);
  }
}

TEST_CASE("Every 32 outputs have a cluster of two CTAs, with a half of d each") {
  const test::OpsFixture f;
  for (const std::string& name : kBatched) {
    for (const std::int64_t m : {1, 8, 9, 16}) {
      for (const std::int64_t r : {64, 192, 1024}) {
        CAPTURE(name, m, r);
        Traits traits;
        const Geometry geometry = f.geometry(Call(name, m, 2, r, 512), traits);
        CHECK(traits["TOKENS"] == (m <= 8 ? 8 : 16));
        CHECK(geometry.cluster.x == 2);
        CHECK(std::int64_t{geometry.grid.x} * 32 == 2 * r * 2);
        CHECK(geometry.grid.x % geometry.cluster.x == 0);
        CHECK(geometry.block.x == 256);
        CHECK(geometry.dynamic_shared_bytes == 96 * 1024);
      }
    }
  }
  Traits traits;
  CHECK(f.geometry(Call(kBatched[0], 0, 2, 64, 512), traits).grid.x == 0);
  CHECK(f.geometry(Call(kBatched[1], 0, 2, 64, 512), traits).grid.x == 0);
  CHECK(f.geometry(Call("wo_a_bf16_gemv", 1, 3, 7, 256), traits).grid.x == 21);
  CHECK(f.geometry(Call("wo_a_bf16_gemv", 1, 0, 7, 256), traits).grid.x == 0);
}

}  // namespace
}  // namespace kiln::registry
