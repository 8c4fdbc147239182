// The descriptions of the engram ops against their contracts.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/ops/op_fixture.hpp"

namespace kiln::registry {
namespace {

using test::at;
using Fixture = test::OpFixture;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// ---------------------------------------------------------------------------------------------

struct GateCall {
  GateCall(std::int64_t t, std::int64_t hc, std::int64_t d, DType rows = DType::kBF16)
      : x(at(0), rows, {t, hc, d}),
        kv(at(1), rows, {t, (hc + 1) * d}),
        q(at(2), DType::kBF16, {hc, d}),
        k(at(3), DType::kF32, {hc, d}),
        out(at(4), rows, {t, hc, d}) {}
  std::vector<Arg> args() const { return {x, kv, q, k, 1e-6, 1e-6, out}; }
  Tensor x, kv, q, k, out;
};

TEST_CASE("fused_engram_gate takes each array in either type, and out follows x") {
  Fixture f("fused_engram_gate");
  GateCall call(8, 4, 5120);
  CHECK(f.error(call.args()).empty());
  CHECK(f.computed("which arrays are f32") == 8);
  call.x = Tensor(at(0), DType::kF32, {8, 4, 5120});
  CHECK(f.error(call.args()) == "fused_engram_gate: out must have x's dtype");
  call.out = Tensor(at(4), DType::kF32, {8, 4, 5120});
  CHECK(f.error(call.args()).empty());
  CHECK(f.computed("which arrays are f32") == 9);
  CHECK(choose_traits(f.op, f.problem)["VECTORS"] == 0);
  call.kv = Tensor(at(1), DType::kBF16, {8, 4 * 5120});
  CHECK(has(f.error(call.args()), "with (hc+1)*d = 25600"));
  CHECK(f.op.constants_switch);
}

TEST_CASE("A width of fused_engram_gate outside the contract is an error") {
  Fixture f("fused_engram_gate");
  CHECK(f.error(GateCall(1, 4, 0).args()) ==
        "fused_engram_gate: d must be a positive multiple of 8, found 0");
  CHECK(has(f.error(GateCall(1, 4, 12).args()), "16-byte boundary"));
  CHECK(f.error(GateCall(1, 1, 20'000).args()).empty());
  CHECK(f.error(GateCall(0, 4, 8).args()).empty());
  CHECK(has(f.error(GateCall(1, 65536, 8).args()), "hc must be between 1 and 65535"));
}

TEST_CASE("A launch of fused_engram_gate covers every row with the threads that its form needs") {
  Fixture f("fused_engram_gate");
  for (const std::int64_t t : {1, 8, 256, 5000}) {
    for (const std::int64_t d : {8, 264, 5120, 5128, 8192, 8200, 16384}) {
      for (const DType rows : {DType::kBF16, DType::kF32}) {
        CAPTURE(t, d, dtype_name(rows));
        REQUIRE(f.error(GateCall(t, 4, d, rows).args()).empty());
        const Traits traits = choose_traits(f.op, f.problem);
        const Geometry geometry = f.geometry();
        const std::int64_t vectors = traits["VECTORS"];
        const std::int64_t threads = geometry.block.x;
        CHECK(threads % 32 == 0);
        CHECK(threads <= (vectors == 0          ? 1024
                          : vectors == 1        ? 640
                          : traits["CTAS"] == 2 ? 320
                                                : 512));
        CHECK((vectors == 0 || threads * vectors * 8 >= d));
        CHECK((vectors != 0 || threads == 1024 || threads * 8 >= d));
        CHECK(geometry.grid.x >= 1);
        CHECK(geometry.grid.x <= t);
        CHECK(geometry.grid.y == 4);
        CHECK(f.op.op.exists(traits, f.problem.target()));
        CHECK((vectors == 1) == (d <= 5120 && (rows == DType::kF32 || t * 4 <= 132)));
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------

struct GatherCall {
  GatherCall(std::int64_t n, std::int64_t rows, std::int64_t dim, std::int64_t groups)
      : weight(at(0), DType::kE4M3, {rows, dim}),
        scale(at(1), DType::kE8M0, {rows, groups}),
        ids(at(2), DType::kI64, {n}),
        out(at(3), DType::kBF16, {n, dim}) {}
  std::vector<Arg> args() const { return {weight, scale, ids, out, row_lo}; }
  Tensor weight, scale, ids, out;
  std::int64_t row_lo = 0;
};

TEST_CASE("engram_gather takes ids of both types and whatever alignment is their own") {
  Fixture f("engram_gather");
  GatherCall call(5, 100, 512, 4);
  CHECK(f.error(call.args()).empty());
  CHECK(f.computed("whether ids are i64") == 1);
  CHECK(f.computed("columns that share a scale") == 128);
  CHECK(f.computed("their logarithm, or -1") == 7);
  CHECK(f.error(GatherCall(5, 100, 480, 20).args()).empty());
  CHECK(f.computed("columns that share a scale") == 24);
  CHECK(f.computed("their logarithm, or -1") == -1);
  CHECK(f.error(GatherCall(5, 100, 48, 48).args()).empty());
  CHECK(f.computed("their logarithm, or -1") == 0);
  call.ids = Tensor(at(2, 4), DType::kI32, {5});
  call.scale = Tensor(at(1, 3), DType::kU8, {100, 4});
  call.weight = Tensor(at(0, 16), DType::kU8, {100, 512});
  call.out = Tensor(at(3, 16), DType::kBF16, {5, 512});
  call.row_lo = std::int64_t{1} << 40;
  CHECK(f.error(call.args()).empty());
  CHECK(f.computed("whether ids are i64") == 0);
  CHECK(f.error(GatherCall(0, 0, 16, 1).args()).empty());
  CHECK(f.geometry().grid.x == 0);
}

TEST_CASE("engram_gather refuses whatever its contract does not allow, before any launch") {
  Fixture f("engram_gather");
  const GatherCall good(5, 100, 512, 4);
  GatherCall call = good;
  CHECK(f.error(GatherCall(5, 100, 0, 1).args()) ==
        "engram_gather: dim must be a positive multiple of 16, at most 67108864, found 0");
  CHECK(has(f.error(GatherCall(5, 1, 24, 1).args()), "multiple of 16, at most 67108864, found 24"));
  CHECK(has(f.error(GatherCall(5, 100, 512, 0).args()), "groups must divide dim = 512, found 0"));
  CHECK(has(f.error(GatherCall(5, 100, 512, 3).args()), "groups must divide dim = 512, found 3"));
  call.weight = Tensor(at(0, 8), DType::kE4M3, {100, 512});
  CHECK(has(f.error(call.args()), "argument \"weight\": expected an address aligned to 16 bytes"));
  call = good;
  call.out = Tensor(at(3, 8), DType::kBF16, {5, 512});
  CHECK(has(f.error(call.args()), "argument \"out\": expected an address aligned to 16 bytes"));
  call = good;
  call.ids = Tensor(at(2, 4), DType::kI64, {5});
  CHECK(has(f.error(call.args()), "argument \"ids\": expected an address aligned to 8 bytes"));
  call.ids = Tensor(at(2, 2), DType::kI32, {5});
  CHECK(has(f.error(call.args()), "argument \"ids\": expected an address aligned to 4 bytes"));
  call.ids = Tensor(at(2), DType::kI64, {5}, {2});
  CHECK(has(f.error(call.args()), "argument \"ids\": expected a contiguous tensor"));
  call.ids = Tensor(at(2), DType::kF32, {5});
  CHECK(has(f.error(call.args()), "argument \"ids\": expected dtype i64 or i32, found f32"));
  call.ids = Tensor(at(2), DType::kI64, {6});
  CHECK(has(f.error(call.args()), "argument \"out\": expected shape [n, dim] with n = 6"));
  call = good;
  call.out = Tensor(at(3), DType::kBF16, {5, 512}, {520, 1});
  CHECK(has(f.error(call.args()), "argument \"out\": expected a contiguous tensor"));
  call.out = Tensor(at(3), DType::kF32, {5, 512});
  CHECK(has(f.error(call.args()), "argument \"out\": expected dtype bf16"));
  call.out = Tensor(at(3), DType::kBF16, {5, 512}, 1);
  CHECK(has(f.error(call.args()), "expected cuda:0 as argument \"weight\", found cuda:1"));
  call.out = Tensor(at(0), DType::kBF16, {5, 512});
  CHECK(has(f.error(call.args()), "shares bytes with argument \"weight\""));
  call = good;
  call.weight = Tensor(nullptr, DType::kE4M3, {100, 512});
  CHECK(has(f.error(call.args()), "argument \"weight\": expected a device pointer, found null"));
  call.weight = Tensor(at(0), DType::kBF16, {100, 512});
  CHECK(has(f.error(call.args()), "argument \"weight\": expected dtype e4m3 or u8"));
  call = good;
  call.scale = Tensor(at(1), DType::kE8M0, {99, 4});
  CHECK(has(f.error(call.args()), "argument \"scale\": expected shape [rows, groups]"));
  call = good;
  call.row_lo = -1;
  CHECK(f.error(call.args()) == "engram_gather: row_lo must not be negative, found -1");
}

TEST_CASE("engram_gather refuses what is no tensor or scalar of its, wherever it stands") {
  Fixture f("engram_gather");
  const GatherCall good(5, 100, 512, 4);
  // Argument i of a good call replaced.
  const auto error = [&](std::size_t i, const Arg& with) {
    std::vector<Arg> args = good.args();
    args[i] = with;
    return f.error(args);
  };
  const char* const names[] = {"weight", "scale", "ids", "out"};
  const Tensor null[] = {Tensor(nullptr, DType::kE4M3, {100, 512}),
                         Tensor(nullptr, DType::kE8M0, {100, 4}), Tensor(nullptr, DType::kI64, {5}),
                         Tensor(nullptr, DType::kBF16, {5, 512})};
  const Tensor elsewhere[] = {
      Tensor(at(0), DType::kE4M3, {100, 512}, 1), Tensor(at(1), DType::kE8M0, {100, 4}, 1),
      Tensor(at(2), DType::kI64, {5}, 1), Tensor(at(3), DType::kBF16, {5, 512}, 1)};
  const Tensor flat[] = {Tensor(at(0), DType::kE4M3, {100 * 512}),
                         Tensor(at(1), DType::kE8M0, {400}), Tensor(at(2), DType::kI64, {5, 1}),
                         Tensor(at(3), DType::kBF16, {5 * 512})};
  const Tensor floats[] = {Tensor(at(0), DType::kF32, {100, 512}),
                           Tensor(at(1), DType::kF32, {100, 4}), Tensor(at(2), DType::kF32, {5}),
                           Tensor(at(3), DType::kF32, {5, 512})};
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(names[i]);
    const std::string argument = std::string("argument \"") + names[i] + "\"";
    CHECK(has(error(i, null[i]), argument));
    CHECK(has(error(i, null[i]), "pointer, found null"));
    CHECK(has(error(i, elsewhere[i]), "cuda:1"));
    CHECK(has(error(i, flat[i]), argument + ": expected shape"));
    CHECK(has(error(i, floats[i]), argument + ": expected dtype"));
    CHECK(has(error(i, Arg()), argument + ": expected a tensor, found none"));
    CHECK(has(error(i, 3), argument + ": expected a tensor, found a scalar"));
  }
  const Tensor apart_weight(at(0), DType::kE4M3, {100, 512}, {528, 1});
  const Tensor apart_scale(at(1), DType::kE8M0, {100, 4}, {8, 1});
  CHECK(has(error(0, apart_weight), "argument \"weight\": expected a contiguous tensor"));
  CHECK(has(error(1, apart_scale), "argument \"scale\": expected a contiguous tensor"));
  const Tensor over_scale(at(1), DType::kBF16, {5, 512});
  const Tensor over_ids(at(2), DType::kBF16, {5, 512});
  CHECK(has(error(3, over_scale), "shares bytes with argument \"scale\""));
  CHECK(has(error(3, over_ids), "shares bytes with argument \"ids\""));
  CHECK(has(error(4, 1.5), "argument \"row_lo\": expected an integer"));
  CHECK(has(error(4, Arg()), "argument \"row_lo\": expected a scalar, found none"));
  CHECK(has(f.error({good.weight, good.scale, good.ids, good.out}), "expected 5 arguments"));
  CHECK(has(f.error(GatherCall(5, 100, (std::int64_t{1} << 26) + 16, 1).args()),
            "at most 67108864, found 67108880"));
  CHECK(has(f.error(GatherCall(std::int64_t{1} << 31, 100, 16, 1).args()),
            "expected n of at most 2147483647"));
}

TEST_CASE("The output and the ids of engram_gather lie on the device") {
  Fixture f("engram_gather");
  const GatherCall call(5, 100, 512, 4);
  DLTensor out = call.out.dlpack();
  DLTensor ids = call.ids.dlpack();
  for (const DLDeviceType device : {kDLCPU, kDLCUDAHost}) {
    out.device = ids.device = {device, 0};
    CHECK(has(f.error({call.weight, call.scale, call.ids, out, 0}), "argument \"out\""));
    CHECK(has(f.error({call.weight, call.scale, ids, call.out, 0}), "argument \"ids\""));
  }
}

TEST_CASE("engram_gather takes tables in pinned host memory, and nothing else there") {
  Fixture f("engram_gather");
  const GatherCall call(5, 100, 512, 4);
  DLTensor weight = call.weight.dlpack();
  DLTensor scale = call.scale.dlpack();
  weight.device = {kDLCUDAHost, 0};
  scale.device = {kDLCUDAHost, 0};
  CHECK(f.error({weight, scale, call.ids, call.out, 0}).empty());
  DLTensor ids = call.ids.dlpack();
  ids.device = {kDLCUDAHost, 0};
  CHECK(has(f.error({weight, scale, ids, call.out, 0}), "found pinned host memory"));
  weight.device = {kDLCPU, 0};
  CHECK(has(f.error({weight, scale, call.ids, call.out, 0}), "found cpu"));
}

TEST_CASE("A launch of engram_gather covers every vector of every row") {
  Fixture f("engram_gather");
  for (const std::int64_t n : {1, 16, 256, 8192, 1'000'000}) {
    for (const std::int64_t dim : {16, 48, 512, 5120, 16384}) {
      for (const std::int64_t block : {1, 8, 16}) {
        CAPTURE(n, dim, block);
        REQUIRE(f.error(GatherCall(n, 1000, dim, dim / block).args()).empty());
        const Traits traits = choose_traits(f.op, f.problem);
        const Geometry g = f.geometry();
        CHECK(std::int64_t{g.grid.x} * g.block.y >= n);
        CHECK((std::int64_t{g.grid.x} - 1) * g.block.y < n);
        CHECK(std::int64_t{g.grid.y} * g.block.x * traits["VECTORS"] * 8 >= dim);
        CHECK(g.block.x * g.block.y <= 256);
        CHECK((traits["WHOLE"] != 0) == (block != 1));
        CHECK(f.op.op.exists(traits, f.problem.target()));
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------

/// A call of engram_hash_ids; what is optional is left out until it is set.
struct HashCall {
  explicit HashCall(std::int64_t t_, std::int64_t n = 4, std::int64_t l = 3, std::int64_t h = 8,
                    std::int64_t rows = 64)
      : t(t_),
        input_ids(at(0), DType::kI64, {t}),
        positions(at(1), DType::kI32, {t}),
        history(at(2), DType::kI32, {rows, n - 1}),
        token_map(at(3), DType::kI64, {100}),
        multipliers(at(4), DType::kI64, {l, n}),
        primes(at(5), DType::kI64, {l, n - 1, h}),
        offsets(at(6), DType::kI64, {l, (n - 1) * h}),
        ids(at(7), DType::kI64, {t, l, (n - 1) * h}),
        tokens(at(8), DType::kI32, {t, n}) {}
  std::vector<Arg> args() const {
    return {input_ids, positions, history,     token_map, multipliers, primes, offsets,
            pad_id,    real,      slots,       block,     row,         starts, indptr,
            image,     shift,     reciprocals, ids,       tokens};
  }

  std::int64_t t;
  Tensor input_ids, positions, history, token_map, multipliers, primes, offsets, ids, tokens;
  Arg pad_id = 0, real, slots, block, row, starts, indptr, image, shift, reciprocals;
};

TEST_CASE("What is given says the mode of engram_hash_ids, and modes exclude each other") {
  Fixture f("engram_hash_ids");
  HashCall call(12);
  CHECK(f.error(call.args()).empty());
  CHECK(f.computed("widths and what is given") == 1 + 4);
  const Tensor per_token(at(9), DType::kI32, {12});
  const Tensor four(at(10), DType::kI64, {4});
  const Tensor five(at(11), DType::kI64, {5});
  call.block = 3;
  call.slots = four;
  CHECK(f.error(call.args()).empty());
  CHECK(f.computed("widths and what is given") == 1 + 4 + 8 + 256);
  call.indptr = five;
  CHECK(has(f.error(call.args()), "three modes, found more than one"));
  call.block = Arg();
  CHECK(f.error(call.args()).empty());
  CHECK(f.computed("requests of qo_indptr") == 4);
  call.row = per_token;
  CHECK(f.error(call.args()) == "engram_hash_ids: row and starts come together, found one of them");
  call.starts = four;
  CHECK(has(f.error(call.args()), "three modes, found more than one"));
  call.indptr = Arg();
  CHECK(f.error(call.args()).empty());
  const Tensor reciprocals(at(12), DType::kI64, {3, 3, 8});
  call.reciprocals = reciprocals;
  CHECK(f.error(call.args()).empty());
  CHECK(choose_traits(f.op, f.problem)["RECIPROCALS"] == 1);
  CHECK(f.op.constants_switch);
}

TEST_CASE("Sizes and scalars of engram_hash_ids outside the contract are errors") {
  Fixture f("engram_hash_ids");
  CHECK(f.error(HashCall(3, 2).args()).empty());
  CHECK(f.error(HashCall(3, 8).args()).empty());
  CHECK(choose_traits(f.op, f.problem)["MAX_ORDER"] == 8);
  CHECK(has(f.error(HashCall(3, 9).args()), "n must be between 2 and 8, found 9"));
  CHECK(has(f.error(HashCall(3, 4, 3, 33).args()), "h must be between 1 and 32, found 33"));
  CHECK(has(f.error(HashCall(3, 4, 0).args()), "l must be at least 1"));
  HashCall call(3);
  call.token_map = Tensor(at(3), DType::kI64, {0});
  CHECK(has(f.error(call.args()), "v must be at least 1"));
  call = HashCall(3);
  call.pad_id = -1;
  CHECK(f.error(call.args()) == "engram_hash_ids: pad_id must not be negative, found -1");
  call.pad_id = 0;
  call.block = 0;
  CHECK(f.error(call.args()) == "engram_hash_ids: block must be at least 1, found 0");
  call.block = Arg();
  call.real = -1;
  CHECK(f.error(call.args()) == "engram_hash_ids: num_real must not be negative, found -1");
  call.real = Arg();
  call.image = 7;
  CHECK(has(f.error(call.args()), "image_token_id and mm_pad_shift come together"));
  call.shift = 100;
  CHECK(f.error(call.args()).empty());
  call.ids = Tensor(at(7, 8), DType::kI64, {3, 3, 24});
  call.tokens = Tensor(at(8, 4), DType::kI32, {3, 4});
  CHECK(f.error(call.args()).empty());
  call.ids = Tensor(at(7), DType::kI64, {3, 3, 25});
  CHECK(has(f.error(call.args()), "with (n-1)*h = 24"));
}

TEST_CASE("Every request of engram_hash_ids has a row of history or a slot") {
  Fixture f("engram_hash_ids");
  HashCall call(65);  // 64 rows.
  CHECK(f.error(call.args()) ==
        "engram_hash_ids: without req_slots, history must have a row for every request, found 64 "
        "for 65 requests");
  call.real = 64;
  CHECK(f.error(call.args()).empty());
  call.real = Arg();
  call.block = 2;
  CHECK(f.error(call.args()).empty());
  const Tensor short_slots(at(10), DType::kI64, {32});
  call.slots = short_slots;
  CHECK(f.error(call.args()) ==
        "engram_hash_ids: req_slots must have an element for every request, found 32 for 33 "
        "requests");
  call.block = Arg();
  const Tensor indptr(at(11), DType::kI32, {34});
  call.indptr = indptr;
  CHECK(has(f.error(call.args()), "found 32 for 33 requests"));
}

TEST_CASE("Without a row of history no request of engram_hash_ids can be looked up") {
  Fixture f("engram_hash_ids");
  HashCall call(6, 4, 3, 8, 0);
  const Tensor six(at(10), DType::kI64, {6});
  const Tensor none(at(10), DType::kI64, {0});
  const Tensor one_end(at(11), DType::kI32, {1});
  const Tensor three_ends(at(11), DType::kI32, {3});
  call.slots = six;
  CHECK(f.error(call.args()) ==
        "engram_hash_ids: history must have the rows that req_slots name, found 0 for 6 requests");
  call.block = 4;
  CHECK(has(f.error(call.args()), "req_slots name, found 0 for 2 requests"));
  call.block = Arg();
  call.indptr = three_ends;
  CHECK(has(f.error(call.args()), "req_slots name, found 0 for 2 requests"));
  call.slots = Arg();
  CHECK(has(f.error(call.args()), "a row for every request, found 0 for 2 requests"));
  call.indptr = one_end;  // All tokens lie past the end, so they are padding.
  CHECK(f.error(call.args()).empty());
  call.slots = none;
  CHECK(f.error(call.args()).empty());
}

TEST_CASE("Tokens of EXTEND need a request, unless all of them are padding") {
  Fixture f("engram_hash_ids");
  const Tensor row(at(9), DType::kI32, {6});
  const Tensor none(at(10), DType::kI64, {0});
  for (const std::int64_t rows : {0, 64}) {
    CAPTURE(rows);
    HashCall call(6, 4, 3, 8, rows);
    call.row = row;
    call.starts = none;
    CHECK(f.error(call.args()) ==
          "engram_hash_ids: starts must have an element for every request that row names, found "
          "none for 6 tokens");
    call.real = 0;
    CHECK(f.error(call.args()).empty());
    call.real = 2;
    CHECK(has(f.error(call.args()), "found none for 2 tokens"));
  }
}

TEST_CASE("A call of engram_hash_ids without tokens is no error, whatever requests there are") {
  Fixture f("engram_hash_ids");
  const Tensor row(at(9), DType::kI32, {0});
  const Tensor four(at(10), DType::kI64, {4});
  HashCall call(0, 4, 3, 8, 0);
  CHECK(f.error(call.args()).empty());
  CHECK(f.geometry().grid.x == 0);
  call.row = row;
  call.starts = four;
  CHECK(f.error(call.args()).empty());
  call.row = call.starts = Arg();
  call.indptr = four;
  CHECK(f.error(call.args()).empty());
  CHECK(f.geometry().grid.x == 0);
}

TEST_CASE("Sizes that a kernel counts in 32 bits are refused beyond them") {
  constexpr std::int64_t kTwo31 = std::int64_t{1} << 31;
  Fixture hash("engram_hash_ids");
  HashCall call(6, 4, 3, 8, kTwo31);
  const Tensor ends(at(11), DType::kI32, {kTwo31});
  call.indptr = ends;
  CHECK(hash.error(call.args()).empty());
  CHECK(hash.computed("requests of qo_indptr") == kTwo31 - 1);
  const Tensor too_many(at(11), DType::kI32, {kTwo31 + 1});
  call.indptr = too_many;
  CHECK(has(hash.error(call.args()),
            "qo_indptr must have between 1 and 2147483648 elements, found 2147483649"));
  const Tensor no_end(at(11), DType::kI32, {0});
  call.indptr = no_end;
  CHECK(has(hash.error(call.args()), "between 1 and 2147483648 elements, found 0"));
  CHECK(has(hash.error(HashCall(kTwo31).args()), "expected t of at most 2147483647"));
  CHECK(has(hash.error(HashCall(3, 4, std::int64_t{1} << 40, 8).args()),
            "l*(n-1)*h at most 1048576, found l = 1099511627776"));
  Fixture reciprocals("engram_reciprocals");
  const Tensor primes(at(0), DType::kI64, {2, kTwo31 / 2});
  const Tensor out(at(1), DType::kI64, {2, kTwo31 / 2});
  CHECK(has(reciprocals.error({primes, out}), "expected count of at most 2147483647"));
}

// Requests, and with them CTAs, up to the last that a grid of 32-bit request numbers has: a kernel
// that numbered its threads across the grid would wrap.
TEST_CASE("Commits of as many requests as 31 bits count have a lane for every token of each") {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  Fixture f("engram_commit_history");
  for (const std::int64_t r : {std::int64_t{1} << 29, (std::int64_t{1} << 29) + 1, kMost}) {
    CAPTURE(r);
    const Tensor history(at(0), DType::kI32, {r, 3});
    const Tensor verify_ids(at(1), DType::kI64, {r, 4});
    const Tensor slots(at(2), DType::kI32, {r});
    const Tensor lens(at(3), DType::kI64, {r});
    REQUIRE(f.error({history, verify_ids, slots, lens}).empty());
    const Geometry g = f.geometry();
    const std::int64_t requests_of_cta = g.block.x / 8;
    CHECK(g.block.x % 32 == 0);
    CHECK(g.grid.x * requests_of_cta >= r);
    CHECK(g.grid.x * requests_of_cta < std::int64_t{1} << 32);
  }
}

TEST_CASE("A launch of the hashes covers all tokens and outputs with whole warps") {
  Fixture hash("engram_hash_ids");
  for (const std::int64_t t : {0, 1, 7, 8, 64, 1024, 100'000}) {
    for (const std::int64_t n : {2, 4, 8}) {
      for (const std::int64_t l : {1, 3, 40}) {
        for (const std::int64_t h : {1, 8, 32}) {
          CAPTURE(t, n, l, h);
          REQUIRE(hash.error(HashCall(t, n, l, h, t + 1).args()).empty());
          const Geometry g = hash.geometry();
          const std::int64_t width = hash.computed("outputs of a token by one CTA");
          const std::int64_t tile = hash.computed("tokens at once");
          CHECK(g.block.x % 32 == 0);
          CHECK(g.block.x <= 512);
          CHECK(g.block.x >= tile * width);
          CHECK(g.block.x >= tile * 8);
          CHECK(g.grid.y * width >= l * (n - 1) * h);
          CHECK((t == 0) == (g.grid.x == 0));
          CHECK((g.grid.x == 0 || (g.grid.x - 1) * tile < t));
        }
      }
    }
  }
}

TEST_CASE("A decode step that commits is one CTA with all tokens, or two kernels") {
  Fixture f("engram_hash_ids_and_commit");
  for (const std::int64_t t : {0, 1, 7, 8, 1024}) {
    for (const std::int64_t l : {1, 3, 40}) {
      CAPTURE(t, l);
      const HashCall call(t, 4, l, 8, t + 1);
      const Tensor slots(at(10), DType::kI64, {t});
      const Tensor loc(at(11), DType::kI32, {t});
      const std::vector<Arg> args = {call.input_ids,
                                     call.positions,
                                     call.history,
                                     call.token_map,
                                     call.multipliers,
                                     call.primes,
                                     call.offsets,
                                     0,
                                     slots,
                                     loc,
                                     Arg(),
                                     Arg(),
                                     Arg(),
                                     call.ids,
                                     call.tokens};
      REQUIRE(f.error(args).empty());
      const Geometry first = f.geometry(0);
      const Geometry second = f.geometry(1);
      const bool commits = choose_traits(f.op, f.problem)["COMMITS"] != 0;
      CHECK((t == 0 || commits == (second.grid.x == 0)));
      if (commits && t != 0) {
        CHECK(first.grid == Dim3{});
        CHECK(f.computed("tokens at once") >= t);
        CHECK(first.block.x <= 512);
      }
      CHECK((commits || std::int64_t{second.grid.x} * second.block.x >= t * 8));
      CHECK(commits == (l != 40 && t <= (l == 3 ? 7 : 21)));
    }
  }
}

TEST_CASE("A decode step needs a history with rows, unless there is no token") {
  Fixture f("engram_hash_ids_and_commit");
  const auto error = [&](std::int64_t t) {
    const HashCall call(t, 4, 3, 8, 0);
    const Tensor slots(at(10), DType::kI64, {t});
    const Tensor loc(at(11), DType::kI32, {t});
    return f.error({call.input_ids, call.positions, call.history, call.token_map, call.multipliers,
                    call.primes, call.offsets, 0, slots, loc, Arg(), Arg(), Arg(), call.ids,
                    call.tokens});
  };
  CHECK(error(3) ==
        "engram_hash_ids_and_commit: history must have the rows that req_slots name, found 0 for 3 "
        "tokens");
  CHECK(error(0).empty());
}

TEST_CASE("engram_commit_history takes histories of 1 to 7 tokens and as many requests as rows") {
  Fixture f("engram_commit_history");
  const auto error = [&](std::int64_t rows, std::int64_t k, std::int64_t r) {
    const Tensor history(at(0), DType::kI32, {rows, k});
    const Tensor verify_ids(at(1), DType::kI64, {r, 4});
    const Tensor slots(at(2), DType::kI32, {r});
    const Tensor lens(at(3), DType::kI64, {r});
    return f.error({history, verify_ids, slots, lens});
  };
  CHECK(error(9, 3, 9).empty());
  CHECK(f.computed("widths") == 5);
  CHECK(error(9, 3, 0).empty());
  CHECK(f.geometry().grid.x == 0);
  CHECK(has(error(9, 8, 9), "k must be between 1 and 7, found 8"));
  CHECK(has(error(9, 0, 9), "k must be between 1 and 7, found 0"));
  CHECK(has(error(8, 3, 9), "a row for each of the 9 distinct slots, found 8"));
  CHECK(has(error(0, 3, 1), "a row for each of the 1 distinct slots, found 0"));
  CHECK(error(0, 3, 0).empty());
}

}  // namespace
}  // namespace kiln::registry
