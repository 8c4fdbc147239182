#include "c_api/op_spec.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "c_api/expression.hpp"
#include "c_api/guard.hpp"
#include "c_api/handles.hpp"
#include "c_api/sized.hpp"

namespace kiln::c_api {
namespace {

constexpr std::int64_t kMostOfGeometry = std::numeric_limits<std::int32_t>::max();

std::string text(const char* given, const char* otherwise = "") {
  return given != nullptr ? given : otherwise;
}

std::optional<std::int64_t> evaluate(const Expression& expression, const Problem& problem) {
  return expression.evaluate(
      [](const void* context, const std::string& symbol) {
        return static_cast<const Problem*>(context)->dim(symbol);
      },
      &problem);
}

// An expression of the op, and between which values a call is inside the contract.
struct Bounded {
  std::string what;
  Expression expression;
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();

  std::string problem_of(const Problem& problem) const {
    const std::optional<std::int64_t> value = evaluate(expression, problem);
    if (!value) {
      return fmt::format("{}, \"{}\", divides by zero or leaves 64 bits for these shapes", what,
                         expression.text());
    }
    if (*value < least || *value > most) {
      return fmt::format("{}, \"{}\", is {} for these shapes; it must be from {} to {}", what,
                         expression.text(), *value, least, most);
    }
    return {};
  }
};

// Every expression whose value the contract vouches for; shared by the op's copies.
using Checks = std::vector<Bounded>;

std::uint32_t in_bounds(const Expression& expression, const Problem& problem) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(evaluate(expression, problem).value_or(0), 0, kMostOfGeometry));
}

/// Translates one description, and collects what its contract is to check.
class Translator {
 public:
  explicit Translator(const kiln_op_spec& spec) : spec_(spec) {}

  Op run() {
    op_.name = text(spec_.name);
    op_.family = text(spec_.family, "own");
    op_.summary = text(spec_.summary, op_.name.c_str());
    if (spec_.min_compute_capability != 0) {
      op_.min_compute_capability = spec_.min_compute_capability;
    }
    if (switched_on(spec_.pdl, false, "spec->pdl")) {
      op_.traits = {TraitSpec::boolean(std::string(kPdlTrait), "programmatic dependent launch")};
    }
    add_arguments();
    add_sources();
    add_kernels();
    add_workspace();
    add_contract();
    return std::move(op_);
  }

 private:
  std::string where(const char* part, const char* name) const {
    return fmt::format("op \"{}\", {} \"{}\"", op_.name, part, text(name));
  }

  void add_arguments() {
    require_array(spec_.args, spec_.arg_count, "spec->args");
    for (std::size_t i = 0; i < spec_.arg_count; ++i) {
      op_.args.push_back(argument(spec_.args[i]));
    }
  }

  ArgSpec argument(const kiln_arg_spec& given) {
    const std::string place = where("argument", given.name);
    ArgSpec arg;
    arg.name = text(given.name);
    arg.summary = text(given.summary);
    arg.optional = (given.flags & KILN_FLAG_OPTIONAL) != 0;
    constexpr int kFlags =
        KILN_FLAG_CONSTANT | KILN_FLAG_OPTIONAL | KILN_FLAG_ROW_STRIDED | KILN_FLAG_HOST_MEMORY;
    if ((given.flags & ~kFlags) != 0) {
      refuse(fmt::format("{}: flags {:#x} are no KILN_FLAG_ constants", place, given.flags));
    }
    require_zero(given.reserved[0] | given.reserved[1], place + ": what is reserved");
    if (given.dtypes == nullptr) {
      arg.scalar = scalar_type(given.scalar_type, place);
      return arg;
    }
    for (const std::string_view name : parts(given.dtypes)) {
      arg.dtypes.push_back(dtype(name, place));
    }
    for (const std::string_view axis : parts(text(given.shape))) {
      arg.shape.push_back(dim(axis, place));
    }
    arg.access = access(given.access, place);
    arg.constant = (given.flags & KILN_FLAG_CONSTANT) != 0;
    arg.host_memory = (given.flags & KILN_FLAG_HOST_MEMORY) != 0;
    arg.layout =
        (given.flags & KILN_FLAG_ROW_STRIDED) != 0 ? Layout::kRowStrided : Layout::kContiguous;
    arg.alignment = given.alignment != 0 ? given.alignment : arg.alignment;
    return arg;
  }

  // "m, ceil_div(n, 4)" without its spaces: "m" and "ceil_div(n, 4)".
  static std::vector<std::string> parts(std::string_view list) {
    std::vector<std::string> found;
    std::string part;
    int depth = 0;
    for (const char c : list) {
      depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      if (c == ',' && depth == 0) {
        found.push_back(std::exchange(part, {}));
      } else if (c != ' ') {
        part += c;
      }
    }
    if (!part.empty() || !found.empty()) {
      found.push_back(part);
    }
    return found;
  }

  static DType dtype(std::string_view name, const std::string& place) {
    std::string known;
    for (int i = 0; i <= static_cast<int>(DType::kComplex64); ++i) {
      if (dtype_name(static_cast<DType>(i)) == name) {
        return static_cast<DType>(i);
      }
      known += fmt::format("{}{}", i == 0 ? "" : ", ", dtype_name(static_cast<DType>(i)));
    }
    refuse(fmt::format("{}: \"{}\" is no element type; there are {}", place, name, known));
  }

  static ScalarType scalar_type(int type, const std::string& place) {
    switch (type) {
      case KILN_TYPE_I32:
        return ScalarType::kI32;
      case KILN_TYPE_I64:
        return ScalarType::kI64;
      case KILN_TYPE_F32:
        return ScalarType::kF32;
      case KILN_TYPE_BOOL:
        return ScalarType::kBool;
      default:
        refuse(fmt::format("{}: {} is no KILN_TYPE_ constant", place, type));
    }
  }

  static Access access(int given, const std::string& place) {
    if (given < KILN_READ || given > KILN_READ_WRITE) {
      refuse(fmt::format("{}: access {} is none of KILN_READ, KILN_WRITE, KILN_READ_WRITE", place,
                         given));
    }
    return static_cast<Access>(given);
  }

  Dim dim(std::string_view axis, const std::string& place) {
    constexpr std::string_view kLeading = "...";
    if (axis.size() > kLeading.size() && axis.ends_with(kLeading)) {
      return symbols_.emplace_back(
          Dim::leading(std::string(axis.substr(0, axis.size() - kLeading.size()))));
    }
    const Expression expression = parse(axis, place);
    const std::vector<std::string> used = expression.symbols();
    if (used.size() == 1 && used[0] == axis) {
      return symbols_.emplace_back(Dim(used[0].c_str()));
    }
    if (used.empty()) {
      return {evaluate_constant(expression, place)};
    }
    derived_.push_back({place + ": axis", expression});
    return Dim::derived(expression.text(), [expression](const Problem& problem) {
      return evaluate(expression, problem).value_or(0);
    });
  }

  static Expression parse(std::string_view given, const std::string& place) {
    try {
      return Expression::parse(given);
    } catch (const Error& error) {
      refuse(place + ": " + error.what());
    }
  }

  static std::int64_t evaluate_constant(const Expression& expression, const std::string& place) {
    const auto value = expression.evaluate(
        [](const void*, const std::string&) { return std::int64_t{0}; }, nullptr);
    if (!value) {
      refuse(fmt::format("{}: \"{}\" has no value", place, expression.text()));
    }
    return *value;
  }

  void add_sources() {
    require_array(spec_.sources, spec_.source_count, "spec->sources");
    for (std::size_t i = 0; i < spec_.source_count; ++i) {
      add_source(spec_.sources[i]);
    }
    require_array(spec_.options, spec_.option_count, "spec->options");
    for (std::size_t i = 0; i < spec_.option_count; ++i) {
      op_.options.emplace_back(&required(spec_.options[i], "spec->options[]"));
    }
  }

  void add_source(const kiln_source& given) {
    if (given.text != nullptr || spec_.source_directory == nullptr) {
      op_.sources.push_back({text(given.name), &required(given.text, "spec->sources[].text")});
      return;
    }
    // Two sources may include one header.
    for (SourceFile& file : headers_from(spec_.source_directory, text(given.name))) {
      if (std::find(op_.sources.begin(), op_.sources.end(), file) == op_.sources.end()) {
        op_.sources.push_back(std::move(file));
      }
    }
  }

  void add_kernels() {
    require_array(spec_.kernels, spec_.kernel_count, "spec->kernels");
    for (std::size_t i = 0; i < spec_.kernel_count; ++i) {
      const kiln_kernel_spec& given = spec_.kernels[i];
      require_zero(given.reserved, where("kernel", given.name) + ": what is reserved");
      KernelSpec kernel;
      kernel.name = text(given.name);
      kernel.source = text(given.source);
      kernel.instantiation = text(given.instantiation);
      require_array(given.params, given.param_count, "spec->kernels[].params");
      for (std::size_t p = 0; p < given.param_count; ++p) {
        kernel.params.push_back(param(given.params[p], where("kernel", given.name)));
      }
      kernel.geometry = geometry(given);
      op_.kernels.push_back(std::move(kernel));
    }
  }

  Param param(const kiln_param_spec& given, const std::string& place) {
    const std::string name = text(given.name);
    require_zero(given.reserved, place + ": what is reserved");
    switch (given.source) {
      case KILN_PARAM_DATA:
        return Param::data(name);
      case KILN_PARAM_STRIDE:
        return Param::stride(name, given.axis, scalar_type(given.type, place));
      case KILN_PARAM_SCALAR:
        return Param::scalar(name);
      case KILN_PARAM_EXPRESSION:
        return expression_param(name, scalar_type(given.type, place), place);
      case KILN_PARAM_WORKSPACE:
        return Param::workspace();
      case KILN_PARAM_CONSTANTS_READY:
        return Param::constants_ready();
      default:
        refuse(fmt::format("{}: {} is no KILN_PARAM_ constant", place, given.source));
    }
  }

  Param expression_param(const std::string& name, ScalarType type, const std::string& place) {
    const bool narrow = type == ScalarType::kI32;
    const Expression expression =
        checked(name, place + ": parameter", narrow ? INT32_MIN : INT64_MIN,
                narrow ? INT32_MAX : INT64_MAX);
    const std::vector<std::string> used = expression.symbols();
    if (used.size() == 1 && used[0] == name) {
      return Param::dim(name, type);
    }
    return Param::computed(
        name,
        [expression](const Problem& problem) { return evaluate(expression, problem).value_or(0); },
        type);
  }

  // Parses it and has the contract vouch for its value.
  Expression checked(std::string_view given, std::string what, std::int64_t least,
                     std::int64_t most) {
    Expression expression = parse(given, what);
    checks_.push_back({std::move(what), expression, least, most});
    return expression;
  }

  std::array<Expression, 3> extents(const char* const (&given)[3], const std::string& what,
                                    std::int64_t least) {
    const auto one = [&](int axis) {
      return checked(text(given[axis], "1"), fmt::format("{} {}", what, "xyz"[axis]), least,
                     kMostOfGeometry);
    };
    return {one(0), one(1), one(2)};
  }

  std::function<Geometry(const Problem&, const Traits&)> geometry(const kiln_kernel_spec& given) {
    const std::string place = where("kernel", given.name);
    return [grid = extents(given.grid, place + ": grid", 0),
            block = extents(given.block, place + ": block", 1),
            cluster = extents(given.cluster, place + ": cluster", 1),
            shared = checked(text(given.dynamic_shared_bytes, "0"),
                             place + ": dynamic_shared_bytes", 0, kMostOfGeometry),
            cooperative = given.cooperative != 0](const Problem& problem, const Traits&) {
      const auto dim3 = [&](const std::array<Expression, 3>& axes) {
        return Dim3{in_bounds(axes[0], problem), in_bounds(axes[1], problem),
                    in_bounds(axes[2], problem)};
      };
      return Geometry{.grid = dim3(grid),
                      .block = dim3(block),
                      .dynamic_shared_bytes = in_bounds(shared, problem),
                      .cluster = dim3(cluster),
                      .cooperative = cooperative};
    };
  }

  void add_workspace() {
    if (spec_.workspace_bytes == nullptr) {
      return;
    }
    const Expression bytes = checked(
        spec_.workspace_bytes, fmt::format("op \"{}\": workspace_bytes", op_.name), 0, INT64_MAX);
    op_.workspace = [bytes](const Problem& problem, const Traits&) {
      return static_cast<std::size_t>(
          std::max<std::int64_t>(evaluate(bytes, problem).value_or(0), 0));
    };
  }

  void add_contract() {
    for (const std::vector<Bounded>& all : {checks_, derived_}) {
      for (const Bounded& check : all) {
        require_symbols(check);
      }
    }
    // What holds for every problem need not be asked again.
    std::erase_if(checks_, [](const Bounded& check) {
      return check.expression.symbols().empty() && holds_always(check);
    });
    if (checks_.empty()) {
      return;
    }
    op_.contract = [checks = std::make_shared<const Checks>(std::move(checks_))](
                       const Problem& problem) -> std::string {
      for (const Bounded& check : *checks) {
        if (std::string wrong = check.problem_of(problem); !wrong.empty()) {
          return wrong;
        }
      }
      return {};
    };
  }

  static bool holds_always(const Bounded& check) {
    const std::int64_t value = evaluate_constant(check.expression, check.what);
    if (value < check.least || value > check.most) {
      refuse(fmt::format("{} is {}; it must be from {} to {}", check.what, value, check.least,
                         check.most));
    }
    return true;
  }

  void require_symbols(const Bounded& check) const {
    for (const std::string& used : check.expression.symbols()) {
      const bool known = std::any_of(symbols_.begin(), symbols_.end(),
                                     [&](const Dim& dim) { return dim.symbol == used; });
      if (!known) {
        refuse(fmt::format("{}: \"{}\" uses {}, which no argument's shape has", check.what,
                           check.expression.text(), used));
      }
    }
  }

  const kiln_op_spec& spec_;
  Op op_;
  std::vector<Dim> symbols_;  // The axes that give symbols their values.
  Checks checks_;
  Checks derived_;  // Checked against the shapes by themselves.
};

}  // namespace

Op to_op(const kiln_op_spec& spec) {
  return Translator(spec).run();
}

}  // namespace kiln::c_api

kiln_status kiln_register_op(kiln_engine* engine, const kiln_op_spec* spec) {
  using namespace kiln::c_api;
  return guard([&] {
    kiln::Engine& made = required(engine, "engine").engine;
    made.register_op(to_op(read_sized(&required(spec, "spec"), "spec")));
  });
}
