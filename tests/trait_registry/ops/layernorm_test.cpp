// The descriptions of the norm and MXFP8 ops against their contracts.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::registry {
namespace {

const std::vector<std::string> kNorms = {"rmsnorm", "rmsnorm_fp32", "rmsnorm_mxfp8",
                                         "hc_combine_norm", "hc_combine_norm_mxfp8"};
const std::vector<std::string> kTargets = {"sm_90",   "sm_90a",  "sm_100", "sm_100a",
                                           "sm_100f", "sm_103a", "sm_120", "sm_120a"};

bool has_streams(const std::string& name) {
  return name.substr(0, 2) == "hc";
}
bool quantizes(const std::string& name) {
  return name.find("mxfp8") != std::string::npos;
}

// Addresses on a device, far from each other: compared, never followed.
void* at(std::uintptr_t index, std::uintptr_t offset = 0) {
  return reinterpret_cast<void*>((index + 1) << 50 | offset);
}

std::int64_t scale_bytes(std::int64_t m, std::int64_t k) {
  return (m + 127) / 128 * 128 * ((k / 32 + 3) / 4 * 4);
}

/// The arguments of a call of any of the ops over rows, to be spoiled one at a time.
struct Call {
  Call(const std::string& op, std::int64_t m, std::int64_t k)
      : name(op),
        x(at(0), DType::kBF16, {m, has_streams(op) ? 4 * k : k}),
        pre(at(1), DType::kF32, {m, 4}),
        w(at(2), DType::kBF16, {k}),
        y(at(3), DType::kBF16, {m, k}),
        q(at(4), DType::kE4M3, {m, k}),
        sf(at(5), DType::kE8M0, {scale_bytes(m, k)}) {}

  std::vector<Arg> args() const {
    std::vector<Arg> out{x};
    if (has_streams(name)) {
      out.emplace_back(pre);
    }
    if (name != "mxfp8_quantize") {
      out.insert(out.end(), {Arg(w), Arg(1e-6), Arg(y)});
    }
    if (quantizes(name)) {
      out.insert(out.end(), {Arg(q), Arg(sf)});
    }
    return out;
  }

  std::string name;
  Tensor x, pre, w, y, q, sf;
};

class Fixture {
 public:
  const BoundOp& op(const std::string& name) const { return **registry_.find(name); }
  std::vector<const BoundOp*> all() const { return registry_.all(); }

  std::string error(const Call& call) const {
    const BoundOp& bound = op(call.name);
    Problem problem(bound.names);
    int device = -1;
    const Status status = check_call(bound, call.args(), true, problem, device);
    return status ? "" : status.error().message;
  }

  Problem problem(const std::string& name, std::int64_t m, std::int64_t k,
                  const std::string& target = "sm_90a") const {
    const BoundOp& bound = op(name);
    Problem result(bound.names);
    for (std::size_t i = 0; i < bound.names.symbols.size(); ++i) {
      const std::string& symbol = bound.names.symbols[i];
      result.set_dim(i, symbol == "m" || symbol == "t" ? m : k);
    }
    result.set_target(parse_target(target));
    result.set_pdl(true);
    return result;
  }

 private:
  Registry registry_;
};

TEST_CASE("Ops over rows take what their contracts allow") {
  const Fixture f;
  for (const std::string& name : kNorms) {
    for (const std::int64_t m : {0, 1, 8, 97, 4095, 65536}) {
      for (const std::int64_t k : {32, 1280, 5120, 8192}) {
        CAPTURE(name, m, k);
        CHECK(f.error(Call(name, m, k)).empty());
      }
    }
    CHECK(f.op(name).constants_switch);
    CHECK(f.op(name).has_pdl_trait);
    CHECK(f.op(name).op.family == "layernorm");
    CHECK(f.op(name).op.min_compute_capability == 90);
  }
  CHECK(f.error(Call("mxfp8_quantize", 97, 5120)).empty());
  CHECK(f.error(Call("rmsnorm", 70'000, 8)).empty());
  CHECK(f.error(Call("rmsnorm", 3, 16384)).empty());
  CHECK(f.error(Call("rmsnorm_mxfp8", 70'000, 16384)).empty());
}

TEST_CASE("A width outside the contract is an error that says what is expected") {
  const Fixture f;
  CHECK(f.error(Call("rmsnorm", 1, 12)) == "rmsnorm: k must be a positive multiple of 8, found 12");
  CHECK(f.error(Call("mxfp8_quantize", 1, 40)) ==
        "mxfp8_quantize: k must be a positive multiple of 32, found 40");
  CHECK(f.error(Call("rmsnorm_mxfp8", 1, 40)).find("multiple of 32, found 40") !=
        std::string::npos);
  CHECK(f.error(Call("hc_combine_norm", 1, 40)).find("multiple of 32, found 40") !=
        std::string::npos);
  CHECK(f.error(Call("hc_combine_norm", 1, 8224)) ==
        "hc_combine_norm: k must be at most 8192, found 8224");
  CHECK(f.error(Call("hc_combine_norm_mxfp8", 65537, 32)) ==
        "hc_combine_norm_mxfp8: m must be at most 65536, found 65537");
}

TEST_CASE("The width of x and the number of scales follow from m and k") {
  const Fixture f;
  Call call("hc_combine_norm", 8, 64);
  call.x = Tensor(at(0), DType::kBF16, {8, 64});
  CHECK(f.error(call) ==
        "hc_combine_norm: argument \"x\": expected shape [m, 4*k] with 4*k = 256, found [8, 64]");
  Call scales("rmsnorm_mxfp8", 8, 160);
  CHECK(scales.sf.dlpack().shape[0] == 128 * 8);
  scales.sf = Tensor(at(5), DType::kE8M0, {8 * 5});
  CHECK(f.error(scales) ==
        "rmsnorm_mxfp8: argument \"sf\": expected shape [ceil128(m)*ceil4(k/32)] with "
        "ceil128(m)*ceil4(k/32) = 1024, found [40]");
}

TEST_CASE("Rows of x may be strided on 16-byte boundaries, scales and pre need no alignment") {
  const Fixture f;
  Call call("hc_combine_norm_mxfp8", 8, 64);
  call.x = Tensor(at(0), DType::kBF16, {8, 256}, {264, 1});
  call.sf = Tensor(at(5, 3), DType::kU8, {128 * 4});
  call.pre = Tensor(at(1, 2), DType::kBF16, {8, 4});
  CHECK(f.error(call).empty());
  call.x = Tensor(at(0), DType::kBF16, {8, 256}, {260, 1});
  CHECK(f.error(call).find("each row to start on a 16-byte boundary") != std::string::npos);
  call = Call("rmsnorm_mxfp8", 8, 64);
  call.q = Tensor(at(4, 8), DType::kE4M3, {8, 64});
  CHECK(f.error(call).find("argument \"q\": expected an address aligned to 16") !=
        std::string::npos);
}

TEST_CASE("What no norm can take is an error that names the argument") {
  const Fixture f;
  const auto refuses = [&](const Call& call, const std::string& arg, const std::string& expected) {
    const std::string message = f.error(call);
    CAPTURE(call.name, arg, expected, message);
    CHECK(message.find(call.name + ": argument \"" + arg + "\": expected " + expected) == 0);
  };
  std::vector<std::string> names = kNorms;
  names.emplace_back("mxfp8_quantize");
  for (const std::string& name : names) {
    const Call good(name, 8, 64);
    const std::int64_t width = has_streams(name) ? 256 : 64;
    REQUIRE(f.error(good).empty());
    Call call = good;
    call.x = Tensor(nullptr, DType::kBF16, {8, width});
    refuses(call, "x", "a device pointer");
    call.x = Tensor(at(0, 8), DType::kBF16, {8, width});
    refuses(call, "x", "an address aligned to 16 bytes");
    call.x = Tensor(at(0), DType::kI32, {8, width});
    refuses(call, "x", "dtype bf16");
    call.x = Tensor(at(0), DType::kBF16, {8, width}, {width, 2});
    refuses(call, "x", name == "rmsnorm_fp32" ? "a contiguous tensor" : "an innermost stride of 1");
    if (name != "rmsnorm_fp32") {  // Whose x has no stride to choose.
      call.x = Tensor(at(0), DType::kBF16, {8, width}, {0, 1});
      CHECK(f.error(call).empty());  // One row for all.
      call.x = Tensor(at(0), DType::kBF16, {8, width}, {width - 8, 1});
      CHECK(f.error(call).empty());
      call.x = Tensor(at(0), DType::kBF16, {8, width}, {-width, 1});
      refuses(call, "x", "strides that are not negative");
      call = Call(name, 1, 64);
      call.x = Tensor(at(0), DType::kBF16, {1, width}, {-3, 1});
      CHECK(f.error(call).empty());  // One row: its stride is never used.
    }
    call = good;
    const Tensor of_another_device(at(4), DType::kE4M3, {8, 64}, 1);
    if (quantizes(name)) {
      call.q = of_another_device;
      refuses(call, "q", "cuda:0 as argument \"x\"");
      call.q = Tensor(at(4), DType::kE8M0, {8, 64});
      refuses(call, "q", "dtype e4m3 or u8");
      call.q = Tensor(at(0), DType::kE4M3, {8, 64});
      refuses(call, "q", "memory of its own");
      call = good;
      call.sf = Tensor(at(4, 511), DType::kE8M0, {scale_bytes(8, 64)});
      refuses(call, "sf", "memory of its own");
    }
    if (name != "mxfp8_quantize") {
      call = good;
      call.y = Tensor(at(0), DType::kBF16, {8, 64});
      refuses(call, "y", "memory of its own");
      call.y = Tensor(at(2, 16), DType::kBF16, {8, 64});
      refuses(call, "y", "memory of its own");
      call.y = Tensor(at(3), DType::kBF16, {8, 64}, {72, 1});
      refuses(call, "y", "a contiguous tensor");
      call.y = Tensor(at(3), DType::kBF16, {7, 64});
      refuses(call, "y", "shape [");
      call = good;
      call.w = Tensor(at(2), DType::kBF16, {72});
      refuses(call, has_streams(name) ? "y" : "w", "shape [");
    }
  }
}

TEST_CASE("A norm of no columns is an error, with rows or without") {
  const Fixture f;
  for (const std::string& name : kNorms) {
    CAPTURE(name);
    CHECK(f.error(Call(name, 3, 0)).find("found 0") != std::string::npos);
    CHECK(f.error(Call(name, 0, 0)).find("found 0") != std::string::npos);
  }
}

TEST_CASE("Outputs may lie between the rows of a strided x") {
  const Fixture f;
  Call call("rmsnorm_mxfp8", 1, 64);
  call.x = Tensor(at(0), DType::kBF16, {1, 64}, {128, 1});
  call.y = Tensor(at(0, 128), DType::kBF16, {1, 64});
  CHECK(f.error(call).empty());
  Call rows("mxfp8_quantize", 2, 64);
  rows.x = Tensor(at(0), DType::kBF16, {2, 64}, {192, 1});
  rows.q = Tensor(at(0, 128), DType::kE4M3, {2, 64});
  CHECK(f.error(rows).empty());
  rows.q = Tensor(at(0, 256 + 16), DType::kE4M3, {2, 64});  // Its last byte is in row 1.
  CHECK(f.error(rows).find("shares bytes with argument \"x\"") != std::string::npos);
}

TEST_CASE("rmsnorm_fp32 takes any leading shape, and y has the dtype of x") {
  const Fixture f;
  Call call("rmsnorm_fp32", 6, 64);
  call.x = Tensor(at(0), DType::kF32, {2, 3, 64});
  call.y = Tensor(at(3), DType::kF32, {2, 3, 64});
  call.w = Tensor(at(2), DType::kF32, {64});
  CHECK(f.error(call).empty());
  call.y = Tensor(at(3), DType::kBF16, {2, 3, 64});
  CHECK(f.error(call) == "rmsnorm_fp32: y must have x's dtype");
  call.x = Tensor(at(0), DType::kBF16, {64});
  call.y = Tensor(at(3), DType::kBF16, {64});
  CHECK(f.error(call).empty());
}

TEST_CASE("mhc_post_split_h takes contiguous streams of any width of whole vectors") {
  const Fixture f;
  const BoundOp& bound = f.op("mhc_post_split_h");
  const auto error = [&](std::int64_t t, std::int64_t h) {
    const Tensor x(at(0), DType::kBF16, {t, h});
    const Tensor residual(at(1), DType::kBF16, {t, 4, h});
    const Tensor post(at(2), DType::kF32, {t, 4});
    const Tensor comb(at(3), DType::kF32, {t, 4, 4});
    const Tensor out(at(4), DType::kBF16, {t, 4, h});
    Problem problem(bound.names);
    int device = -1;
    const std::vector<Arg> args = {x, residual, post, comb, out};
    const Status status = check_call(bound, args, true, problem, device);
    return status ? "" : status.error().message;
  };
  CHECK(error(70'000, 5120).empty());
  CHECK(error(0, 8).empty());
  CHECK(error(3, 12).find("each row to start on a 16-byte boundary") != std::string::npos);
  CHECK(error(3, 0) == "mhc_post_split_h: h must be a positive multiple of 8, found 0");
}

bool has_loop_trait(const Traits& traits) {
  return std::any_of(traits.specs()->begin(), traits.specs()->end(),
                     [](const TraitSpec& spec) { return spec.name == "LOOP"; });
}

// What the templates demand of their launches (kernel_templates/layernorm/row_norm.cuh).
void check_norm_launch(const std::string& name, const Problem& problem, const Traits& traits,
                       const Geometry& geometry) {
  const std::int64_t m = problem.dim("m");
  const std::int64_t k = problem.dim("k");
  const std::int64_t vectors = traits["VECTORS"];
  const std::int64_t ctas = traits["CTAS"];
  CAPTURE(name, m, k, to_string(problem.target()), vectors, ctas);
  CHECK(geometry.grid.x >= 1);
  CHECK(geometry.grid.x % ctas == 0);
  CHECK(std::int64_t{geometry.cluster.x} == ctas);
  CHECK(geometry.block.x % 32 == 0);
  CHECK(geometry.block.y <= 8);
  const std::int64_t threads = std::int64_t{geometry.block.x} * geometry.block.y;
  if (vectors == 0) {
    CHECK(threads == 1024);
    CHECK(ctas == 1);
  } else {
    CHECK(threads <= 1024 / (vectors * ctas));
    CHECK(geometry.block.x * vectors * ctas * 8 >= k);
    CHECK((geometry.block.y == 1 || ctas == 1));
  }
  CHECK((geometry.grid.x - ctas) / ctas * geometry.block.y < m);  // No CTA without a row.
  if (has_loop_trait(traits) && traits["LOOP"] == 0) {
    CHECK(geometry.grid.x / ctas * geometry.block.y >= m);  // No row without a CTA.
    CHECK((vectors != 0 && ctas == 1));
  }
}

TEST_CASE("The chosen variant of a norm exists and covers every row at every shape and target") {
  const Fixture f;
  for (const std::string& name : kNorms) {
    const Op& op = f.op(name).op;
    for (const std::string& target : kTargets) {
      for (const std::int64_t m :
           {1, 2, 7, 8, 9, 16, 17, 33, 64, 97, 129, 256, 1000, 4097, 65536}) {
        for (const std::int64_t k : {8, 32, 128, 256, 512, 1280, 1312, 5120, 7168, 8192, 16384}) {
          if (has_streams(name) && k > 8192) {
            continue;
          }
          const Problem problem = f.problem(name, m, k, target);
          const Traits traits = choose_traits(f.op(name), problem);
          CHECK((traits["VECTORS"] == 0) == (k > 8192));
          CHECK(compile_unit({&op, 0, traits, problem.target()}));
          check_norm_launch(name, problem, traits, op.kernels[0].geometry(problem, traits));
        }
      }
    }
  }
}

TEST_CASE("The chosen variant of a norm exists at every row count up to 65,536") {
  const Fixture f;
  for (const std::string& name : kNorms) {
    const Op& op = f.op(name).op;
    for (const std::int64_t k : {1280, 5120}) {
      std::int64_t wrong = 0;
      for (std::int64_t m = 1; m <= 65536; m += m < 2048 ? 1 : 7) {
        const Problem problem = f.problem(name, m, k);
        const Traits traits = choose_traits(f.op(name), problem);
        const Geometry geometry = op.kernels[0].geometry(problem, traits);
        const std::int64_t ctas = traits["CTAS"];
        const std::int64_t rows = geometry.grid.x / ctas * geometry.block.y;
        const bool loops = !has_loop_trait(traits) || traits["LOOP"] != 0;
        wrong += !op.exists(traits, problem.target()) || geometry.grid.x % ctas != 0 ||
                         geometry.block.x * geometry.block.y > 1024 / (traits["VECTORS"] * ctas) ||
                         rows < 1 || (!loops && rows < m)
                     ? 1
                     : 0;
      }
      CAPTURE(name, k);
      CHECK(wrong == 0);
    }
  }
}

// A warp without a segment still takes part in each exchange of its cluster (row_sum.cuh), which
// has 32 slots.
TEST_CASE("The warps of a cluster that shares a row have a slot each") {
  const Fixture f;
  for (const std::string& name : kNorms) {
    const Op& op = f.op(name).op;
    for (const Variant& variant : enumerate(f.op(name), parse_target("sm_90a"))) {
      const std::int64_t ctas = variant.traits["CTAS"];
      for (std::int64_t k = 32; ctas > 1 && k <= 8192; k += 32) {
        const Problem problem = f.problem(name, 33, k);
        const Geometry geometry = op.kernels[0].geometry(problem, variant.traits);
        const std::int64_t slots = geometry.block.x / 32 * ctas * variant.traits["VECTORS"];
        if (slots > 32 || slots * 256 < k) {
          CAPTURE(name, to_string(variant), k, slots);
          FAIL_CHECK("a warp has no slot, or a part of the row no warp");
        }
      }
    }
  }
}

TEST_CASE("Every variant of a norm has a launch that its template allows") {
  const Fixture f;
  for (const std::string& name : kNorms) {
    const Op& op = f.op(name).op;
    for (const Variant& variant : enumerate(f.op(name), parse_target("sm_90a"))) {
      for (const std::int64_t m : {1, 8, 1000, 65536}) {
        for (const std::int64_t k : {32, 1280, 5120, 8192}) {
          const Problem problem = f.problem(name, m, k);
          check_norm_launch(name, problem, variant.traits,
                            op.kernels[0].geometry(problem, variant.traits));
        }
      }
    }
  }
}

TEST_CASE("Elementwise ops have a thread for every vector of a row and stay within the grid") {
  const Fixture f;
  for (const std::string name : {"mxfp8_quantize", "mhc_post_split_h"}) {
    const Op& op = f.op(name).op;
    for (const std::int64_t m : {1, 8, 9, 97, 4097, 70'000, 2147483647}) {
      for (const std::int64_t k : {32, 1312, 5120, 16384, 1 << 30}) {
        CAPTURE(name, m, k);
        const Problem problem = f.problem(name, m, k);
        const Traits traits = choose_traits(f.op(name), problem);
        const Geometry geometry = op.kernels[0].geometry(problem, traits);
        const std::int64_t across = std::int64_t{geometry.grid.x} * geometry.block.x;
        CHECK(across * 8 >= k);
        CHECK((across - geometry.block.x) * 8 < k);
        CHECK(geometry.block.x % 32 == 0);
        CHECK(geometry.block.x <= 256);
        CHECK(geometry.grid.y >= 1);
        CHECK(geometry.grid.y <= 65535);
        CHECK(across * geometry.grid.y < std::int64_t{1} << 32);
      }
    }
  }
}

TEST_CASE("Few rows of MXFP8 scales have CTAs of their own for the padding, where there is any") {
  const Fixture f;
  for (const BoundOp* bound : f.all()) {
    const Op& op = bound->op;
    if (op.family != "layernorm" || op.name == "mhc_post_split_h") {
      continue;
    }
    for (const std::string& target : kTargets) {
      for (const std::int64_t m : {1, 8, 127, 128, 129, 256, 511, 512, 513, 1000, 65536}) {
        for (const std::int64_t k : {32, 1280, 5120}) {
          CAPTURE(op.name, target, m, k);
          const Problem problem = f.problem(op.name, m, k, target);
          const Geometry geometry =
              op.kernels[0].geometry(problem, choose_traits(f.op(op.name), problem));
          const bool elementwise = op.name == "mxfp8_quantize";
          // One row of the grid for the data; each further one has as many CTAs.
          const std::uint32_t rows = elementwise ? geometry.grid.z : geometry.grid.y;
          const bool pads = quantizes(op.name) && m % 128 != 0 && m <= 512;
          CHECK((rows > 1) == pads);
          CHECK(rows <= 9);
          if (pads) {  // A thread has at most one store of 16 bytes, unless that takes more rows.
            const std::int64_t threads = std::int64_t{geometry.grid.x} * geometry.block.x *
                                         geometry.block.y * (elementwise ? geometry.grid.y : 1);
            const std::int64_t stores = (k + 127) / 128 * 32;
            CHECK(((rows - 1) * threads >= stores || rows == 9));
            CHECK((rows - 2) * threads < stores);
          }
        }
      }
    }
  }
}

TEST_CASE("An empty batch of rows gives a grid that launches nothing") {
  const Fixture f;
  for (const BoundOp* bound : f.all()) {
    if (bound->op.family == "layernorm") {
      const Problem problem = f.problem(bound->op.name, 0, 5120);
      const Traits traits = choose_traits(f.op(bound->op.name), problem);
      const Geometry geometry = f.op(bound->op.name).op.kernels[0].geometry(problem, traits);
      CAPTURE(bound->op.name);
      CHECK(std::uint64_t{geometry.grid.x} * geometry.grid.y == 0);
    }
  }
}

TEST_CASE("Each op over rows has few enough variants to prebuild") {
  const Fixture f;
  for (const BoundOp* bound : f.all()) {
    if (bound->op.family == "layernorm") {
      CAPTURE(bound->op.name);
      CHECK(enumerate(f.op(bound->op.name), parse_target("sm_90a")).size() <= 24);
    }
  }
}

}  // namespace
}  // namespace kiln::registry
