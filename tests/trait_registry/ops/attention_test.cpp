// The descriptions of the ops that rotate heads by position against their contract.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/ops/op_fixture.hpp"

namespace kiln::registry {
namespace {

using test::at;

const std::vector<std::string> kOps = {"q_rope_store", "rope_inplace"};

/// The arguments of a call of either op, to be spoiled one at a time.
struct Call {
  Call(const std::string& op, std::int64_t rows, std::int64_t heads)
      : name(op),
        q(at(0), DType::kBF16, {rows, heads, 512}),
        out(at(1), DType::kBF16, {rows, heads, 512}, {64 * 512, 512, 1}),
        freqs(at(2), DType::kComplex64, {4096, 32}),
        positions(at(3), DType::kI64, {rows}) {}

  std::vector<Arg> args() const {
    return name == "q_rope_store" ? std::vector<Arg>{q, out, freqs, positions}
                                  : std::vector<Arg>{q, freqs, positions};
  }

  std::string name;
  Tensor q, out, freqs, positions;
};

TEST_CASE("Heads may be a slice of a padded buffer, and positions of either width anywhere") {
  const test::OpsFixture f;
  for (const std::string& name : kOps) {
    CAPTURE(name);
    Call call(name, 6, 16);
    CHECK(f.error(call).empty());
    call.q = Tensor(at(0), DType::kBF16, {6, 16, 512}, {64 * 512 + 8, 512, 1});
    call.positions = Tensor(at(3, 4), DType::kI32, {6});
    CHECK(f.error(call).empty());
    CHECK(f.error(Call(name, 0, 16)).empty());
    CHECK(f.op(name).op.family == "attention");
    CHECK(f.op(name).has_pdl_trait);
    CHECK(f.op(name).constants_switch);
  }
}

TEST_CASE("What is no row of heads, table or positions is refused with what was expected") {
  const test::OpsFixture f;
  for (const std::string& name : kOps) {
    CAPTURE(name);
    Call call(name, 6, 16);
    call.freqs = Tensor(at(2), DType::kComplex64, {0, 32});
    CHECK(f.error(call) == name + ": freqs must have a row: p must be at least 1, found 0");
    call = Call(name, 6, 16);
    call.freqs = Tensor(at(2, 8), DType::kComplex64, {4096, 32});
    CHECK(f.error(call).find("argument \"freqs\": expected an address aligned to 16") !=
          std::string::npos);
    call = Call(name, 6, 16);
    call.q = Tensor(at(0), DType::kBF16, {6, 16, 512}, {64 * 512 + 4, 512, 1});
    CHECK(f.error(call).find("each row to start on a 16-byte boundary") != std::string::npos);
    call.q = Tensor(at(0), DType::kBF16, {6, 16, 256});
    CHECK(f.error(call).find("expected shape [rows, heads, 512]") != std::string::npos);
    CHECK(f.error(Call(name, 1, 262'141)).find("at most 262140") != std::string::npos);
  }
  Call onto("q_rope_store", 6, 16);
  onto.out = onto.q;
  CHECK(f.error(onto).find("shares bytes with argument \"q\"") != std::string::npos);
}

TEST_CASE("Every vector of every head has one thread") {
  const test::OpsFixture f;
  for (const std::string target : {"sm_90a", "sm_100a", "sm_103a", "sm_120a"}) {
    for (const std::int64_t rows : {1, 7, 64, 529, 4096, 70'000}) {
      for (const std::int64_t heads : {1, 2, 3, 16, 17, 63, 128}) {
        CAPTURE(target, rows, heads);
        Traits traits;
        Call call("q_rope_store", rows, heads);
        call.out = Tensor(at(1), DType::kBF16, {rows, heads, 512});
        Geometry geometry = f.geometry(call, traits, target);
        CHECK(std::int64_t{geometry.grid.x} == rows);
        CHECK(geometry.block.x == 64);
        CHECK(geometry.block.y <= 4);
        const std::int64_t per_cta = geometry.block.y * traits["HEADS"];
        CHECK(std::int64_t{geometry.grid.y} * per_cta >= heads);
        CHECK((std::int64_t{geometry.grid.y} - 1) * per_cta < heads);
        geometry = f.geometry(Call("rope_inplace", rows, heads), traits, target);
        CHECK(std::int64_t{geometry.grid.x} == rows);
        CHECK(geometry.block.x <= 128);
        CHECK(geometry.block.x % 32 == 0);
        CHECK(std::int64_t{geometry.grid.y} * geometry.block.x >= heads * 8);
        CHECK((std::int64_t{geometry.grid.y} - 1) * geometry.block.x < heads * 8);
      }
    }
  }
}

TEST_CASE("Decode and prefill are variants of their own, and there are few") {
  const test::OpsFixture f;
  Traits traits;
  f.geometry(Call("q_rope_store", 64, 16), traits);
  CHECK(traits["HEADS"] == 1);
  f.geometry(Call("q_rope_store", 4096, 16), traits);
  CHECK(traits["HEADS"] == 4);
  Call narrow("rope_inplace", 8, 16);
  narrow.positions = Tensor(at(3), DType::kI32, {8});
  f.geometry(narrow, traits);
  CHECK(traits["POSITION"] == 1);
  CHECK(f.geometry(Call("rope_inplace", 0, 16), traits).grid.x == 0);
  CHECK(f.geometry(Call("q_rope_store", 0, 16), traits).grid.x == 0);
  CHECK(enumerate(f.op("q_rope_store"), parse_target("sm_90a")).size() == 8);
  CHECK(enumerate(f.op("rope_inplace"), parse_target("sm_90a")).size() == 4);
}

}  // namespace
}  // namespace kiln::registry
