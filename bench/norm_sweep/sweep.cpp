#include "bench/norm_sweep/sweep.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "bench/norm_sweep/cases.hpp"

namespace kiln::bench {
namespace {

constexpr std::int64_t kMultiprocessors = 132;
constexpr std::int64_t kMostRows = 4096;  // What is best there is best beyond it.

/// How a variant is launched otherwise than the registry says; 0 keeps what it says.
struct Shape {
  std::uint32_t grid_x = 0;
  std::uint32_t grid_y = 0;
  std::uint32_t grid_z = 0;
  std::uint32_t block_x = 0;
};

struct Timing {
  std::string what;
  double us = 0;
};

Op forced(const Op& original, const Traits& traits, const Shape& shape, const std::string& name) {
  Op op = original;
  op.name = name;
  op.choose = [traits](const Problem&, Traits& chosen) {
    for (const TraitSpec& spec : *traits.specs()) {
      chosen.set(spec.name, traits[spec.name]);
    }
  };
  op.kernels[0].geometry = [geometry = original.kernels[0].geometry, shape](const Problem& problem,
                                                                            const Traits& chosen) {
    Geometry out = geometry(problem, chosen);
    out.grid.x = shape.grid_x != 0 ? shape.grid_x : out.grid.x;
    out.grid.y = shape.grid_y != 0 ? shape.grid_y : out.grid.y;
    out.grid.z = shape.grid_z != 0 ? shape.grid_z : out.grid.z;
    out.block.x = shape.block_x != 0 ? shape.block_x : out.block.x;
    return out;
  };
  return op;
}

bool is_elementwise(const Op& op) {
  return op.name == "mxfp8_quantize" || op.name == "mhc_post_split_h";
}

// With other numbers of CTAs (less one) for the padding of scales.
std::vector<Shape> padded(const Shape& shape, const Case& which, std::uint32_t Shape::*dimension) {
  std::vector<Shape> shapes{shape};
  if (std::string_view(which.op).find("mxfp8") != std::string_view::npos && which.m <= 64) {
    for (const std::uint32_t count : {1U, 2U, 3U, 5U, 9U}) {
      shapes.push_back(shape);
      shapes.back().*dimension = count;
    }
  }
  return shapes;
}

bool takes_one_row(const Traits& traits) {
  return std::any_of(traits.specs()->begin(), traits.specs()->end(),
                     [](const TraitSpec& spec) { return spec.name == "LOOP"; }) &&
         traits["LOOP"] == 0;
}

// Rows are dealt out round robin, so a norm's grid may have any number of CTAs.
std::vector<Shape> norm_shapes(const Case& which, const Traits& traits) {
  std::vector<Shape> shapes;
  const std::int64_t ctas = traits["CTAS"];
  const auto add = [&](std::int64_t groups) {
    Shape shape;
    shape.grid_x = static_cast<std::uint32_t>(groups * ctas);
    shapes.push_back(shape);
  };
  if (which.m * ctas <= kMultiprocessors || takes_one_row(traits)) {
    return padded(Shape{}, which, &Shape::grid_y);
  }
  for (const std::int64_t per_sm : {1, 2, 3, 4, 6}) {
    const std::int64_t groups = kMultiprocessors * per_sm / ctas;
    if (groups >= which.m) {
      continue;
    }
    add(groups);
    const std::int64_t rounds = (which.m + groups - 1) / groups;
    add((which.m + rounds - 1) / rounds);
  }
  add(which.m);
  return shapes;
}

std::vector<Shape> elementwise_shapes(const Case& which, std::int64_t rows) {
  std::vector<Shape> shapes;
  for (const std::uint32_t threads : {32U, 64U, 128U, 160U, 256U}) {
    const auto across = static_cast<std::uint32_t>((which.k / 8 + threads - 1) / threads);
    const std::int64_t steps = (which.m + rows - 1) / rows;
    const auto all = static_cast<std::uint32_t>(std::min<std::int64_t>(steps, 65535));
    for (const Shape& shape :
         padded({.grid_x = across, .grid_y = all, .block_x = threads}, which, &Shape::grid_z)) {
      shapes.push_back(shape);
    }
    const auto resident = static_cast<std::uint32_t>(kMultiprocessors * 2048 / threads / across);
    if (resident < all) {
      shapes.push_back({.grid_x = across, .grid_y = resident, .block_x = threads});
    }
  }
  return shapes;
}

bool serves(const Traits& traits, const Op& op, const Case& which) {
  if (traits[kPdlTrait] == 0) {
    return false;
  }
  for (const TraitSpec& spec : op.traits) {
    // The types that the cases have: bf16, but pre in fp32.
    const bool wants_one = spec.name == "PRE";
    const bool is_type = wants_one || spec.name == "X" || spec.name == "W";
    if (is_type && (traits[spec.name] != 0) != wants_one) {
      return false;
    }
    if (spec.name == "VECTORS" && traits["VECTORS"] == 0 && which.k <= 8192) {
      return false;
    }
  }
  return true;
}

std::string describe(const Variant& variant, const Shape& shape) {
  return to_string(variant) + " grid " + std::to_string(shape.grid_x) + "x" +
         std::to_string(shape.grid_y) + "x" + std::to_string(shape.grid_z) + " block " +
         std::to_string(shape.block_x);
}

// `number` makes the names of the ops that are registered on the way unique.
void sweep_case(Engine& engine, const GraphTimer& timer, const Case& which, int& number) {
  CaseTensors tensors(which);
  const OpHandle original = engine.op(which.op);
  const std::vector<std::uint8_t> expected = tensors.result(engine, original, timer.stream());
  std::vector<Timing> timings;
  const auto time = [&](const OpHandle& op) {
    return timer.microseconds_per_call([&] { tensors.launch(engine, op, timer.stream()); });
  };
  timings.push_back({"** as the registry chooses", time(original)});
  const Target target{9, 0, TargetSuffix::kArch};
  for (const Variant& variant : engine.variants(original, target)) {
    if (!serves(variant.traits, original.op(), which)) {
      continue;
    }
    const std::vector<Shape> shapes =
        is_elementwise(original.op())
            ? elementwise_shapes(which, std::max<std::int64_t>(variant.traits["ROWS"], 1))
            : norm_shapes(which, variant.traits);
    for (const Shape& shape : shapes) {
      const std::string name = std::string(which.op) + "_" + std::to_string(number++);
      engine.register_op(forced(original.op(), variant.traits, shape, name));
      const OpHandle op = engine.op(name);
      if (tensors.result(engine, op, timer.stream()) != expected) {
        throw std::runtime_error(describe(variant, shape) + " differs");
      }
      timings.push_back({describe(variant, shape), time(op)});
    }
  }
  std::sort(timings.begin(), timings.end(),
            [](const Timing& a, const Timing& b) { return a.us < b.us; });
  std::printf("\n%s m=%lld k=%lld floor %.2f\n", which.op, static_cast<long long>(which.m),
              static_cast<long long>(which.k), floor_us(which));
  std::size_t rank = 0;
  for (const Timing& timing : timings) {
    if (rank++ < 8 || timing.what[0] == '*') {
      std::printf("  %8.3f  %s\n", timing.us, timing.what.c_str());
    }
  }
}

}  // namespace

void sweep(Engine& engine, const GraphTimer& timer, const std::string& only) {
  int number = 0;
  for (const Case& which : cases()) {
    if (which.m <= kMostRows && (only.empty() || only == which.op)) {
      sweep_case(engine, timer, which, number);
    }
  }
}

}  // namespace kiln::bench
