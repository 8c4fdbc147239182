#include "trait_registry/bind.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include <kiln/tensor.hpp>

#include "trait_registry/part.hpp"
#include "trait_registry/pattern.hpp"
#include "trait_registry/sources.hpp"
#include "trait_registry/validate.hpp"

namespace kiln::registry {
namespace {

// Resolves the names of one description. Expects validate() to have passed on the op's parts that
// do not refer to each other.
class Binder {
 public:
  explicit Binder(BoundOp& bound) : bound_(bound), op_(bound.op) {}

  Status run() {
    bind_args();
    if (bound_.names.symbols.size() > Problem::kMaxSymbols) {
      return bad("", fmt::format("has {} symbols in its shapes, more than {}",
                                 bound_.names.symbols.size(), Problem::kMaxSymbols));
    }
    bound_.has_pdl_trait = has_trait(kPdlTrait);
    for (std::size_t k = 0; k < op_.kernels.size(); ++k) {
      if (Status status = bind_kernel(op_.kernels[k]); !status) {
        return status;
      }
    }
    if (Status status = check_use(); !status) {
      return status;
    }
    bound_.constants_switch = constants_switch();
    return {};
  }

 private:
  Status bad(const std::string& part, const std::string& what) const {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("op \"{}\"{}{}: {}", op_.name, part.empty() ? "" : ", ", part, what));
  }

  bool has_trait(std::string_view name) const {
    return std::any_of(op_.traits.begin(), op_.traits.end(),
                       [&](const TraitSpec& trait) { return trait.name == name; });
  }

  static int index_in(const std::vector<std::string>& names, const std::string& name) {
    const auto found = std::find(names.begin(), names.end(), name);
    return found == names.end() ? -1 : static_cast<int>(found - names.begin());
  }

  void bind_args() {
    for (const ArgSpec& arg : op_.args) {
      BoundArg bound;
      bound.written = arg.access != Access::kRead;
      bound.is_tensor = arg.is_tensor();
      bound.optional = arg.optional;
      bound.host_memory = arg.host_memory;
      bound.alignment = arg.alignment;
      for (const DType dtype : arg.dtypes) {
        bound.dtype_mask |= 1U << static_cast<unsigned>(dtype);
      }
      for (const Dim& dim : arg.shape) {
        bound.shape.push_back(bind_dim(dim));
        bound.has_leading |= dim.kind == Dim::Kind::kLeading;
        bound.has_derived |= dim.kind == Dim::Kind::kDerived;
      }
      bound_.args.push_back(std::move(bound));
      bound_.names.args.push_back(arg.name);
    }
  }

  BoundDim bind_dim(const Dim& dim) {
    if (dim.kind == Dim::Kind::kFixed || dim.kind == Dim::Kind::kDerived) {
      return {dim.kind, -1, dim.value};
    }
    std::vector<std::string>& symbols = bound_.names.symbols;
    int index = index_in(symbols, dim.symbol);
    if (index < 0) {
      index = static_cast<int>(symbols.size());
      symbols.push_back(dim.symbol);
    }
    return {dim.kind, index, 0};
  }

  Status bind_kernel(const KernelSpec& kernel) {
    const Part part{"kernel", kernel.name};
    const Result<std::vector<std::string>> traits = traits_in_pattern(kernel.instantiation);
    if (!traits) {
      return bad(part, fmt::format("instantiation \"{}\": {}", kernel.instantiation,
                                   traits.error().message));
    }
    for (const std::string& trait : *traits) {
      if (!has_trait(trait)) {
        return bad(part,
                   fmt::format("instantiation \"{}\" names {{{}}}, which is no trait of the op",
                               kernel.instantiation, trait));
      }
    }
    if (Status status = check_source(kernel, part); !status) {
      return status;
    }
    std::vector<BoundParam> params;
    for (std::size_t i = 0; i < kernel.params.size(); ++i) {
      Result<BoundParam> param = bind_param(kernel.params[i], {part.kind, part.name, i});
      if (!param) {
        return tl::unexpected(std::move(param.error()));
      }
      params.push_back(*param);
    }
    bound_.params.push_back(std::move(params));
    return {};
  }

  Status check_source(const KernelSpec& kernel, const Part& part) const {
    if (find_embedded(kernel.source) != nullptr) {
      return {};  // So is all that it includes.
    }
    const Result<SourceFile> main = find_source(kernel.source, op_.sources);
    if (!main) {
      return bad(part, main.error().message);
    }
    const Result<std::vector<SourceFile>> headers = include_closure(*main, op_.sources);
    if (!headers) {
      return bad(part, headers.error().message);
    }
    return {};
  }

  Result<BoundParam> bind_param(const Param& param, const Part& part) {
    using Source = Param::Source;
    BoundParam bound{param.source, -1, param.axis, param.type};
    switch (param.source) {
      case Source::kData:
      case Source::kStride:
      case Source::kScalar:
        return bind_arg_param(param, part);
      case Source::kDim:
        bound.index = index_in(bound_.names.symbols, param.name);
        if (bound.index < 0) {
          return refuse(
              part, fmt::format("takes dim \"{}\", which is no symbol of any shape", param.name));
        }
        if (param.type != ScalarType::kI32 && param.type != ScalarType::kI64) {
          return refuse(part, fmt::format("dim \"{}\" must be i32 or i64", param.name));
        }
        if (param.type == ScalarType::kI32) {
          bound_.i32_symbols |= 1U << bound.index;
        }
        return bound;
      case Source::kComputed:
        if (!param.compute) {
          return refuse(part, fmt::format("\"{}\" has no function to work it out", param.name));
        }
        if (param.type != ScalarType::kI32 && param.type != ScalarType::kI64) {
          return refuse(part, fmt::format("\"{}\" must be i32 or i64", param.name));
        }
        return bound;
      case Source::kWorkspace:
        if (!op_.workspace) {
          return refuse(part, "takes the workspace, but the op has no workspace function");
        }
        return bound;
      case Source::kConstantsReady:
        bound.type = ScalarType::kBool;
        return bound;
    }
    return refuse(part, "has an unknown source");
  }

  Result<BoundParam> bind_arg_param(const Param& param, const Part& part) {
    BoundParam bound{param.source, index_in(bound_.names.args, param.name), param.axis, param.type};
    if (bound.index < 0) {
      return refuse(part, fmt::format("takes \"{}\", which is no argument of the op", param.name));
    }
    const ArgSpec& arg = op_.args[static_cast<std::size_t>(bound.index)];
    const bool wants_tensor = param.source != Param::Source::kScalar;
    if (arg.is_tensor() != wants_tensor) {
      return refuse(part, fmt::format("takes \"{}\" as a {}, but it is a {}", param.name,
                                      wants_tensor ? "tensor" : "scalar",
                                      wants_tensor ? "scalar" : "tensor"));
    }
    if (param.source == Param::Source::kScalar) {
      bound.type = arg.scalar;
    }
    if (param.source == Param::Source::kStride) {
      if (bound_.args[static_cast<std::size_t>(bound.index)].has_leading) {
        return refuse(
            part, fmt::format("takes a stride of \"{}\", whose number of axes varies", param.name));
      }
      if (param.axis < 0 || static_cast<std::size_t>(param.axis) >= arg.shape.size()) {
        return refuse(part, fmt::format("takes the stride of axis {} of \"{}\", which has {} axes",
                                        param.axis, param.name, arg.shape.size()));
      }
      if (param.type != ScalarType::kI32 && param.type != ScalarType::kI64) {
        return refuse(part, fmt::format("the stride of \"{}\" must be i32 or i64", param.name));
      }
      if (param.type == ScalarType::kI32) {
        bound_.args[static_cast<std::size_t>(bound.index)].i32_strides |= 1U << param.axis;
      }
    }
    return bound;
  }

  tl::unexpected<Failure> refuse(const Part& part, const std::string& what) const {
    return tl::unexpected<Failure>(bad(part, what).error());
  }

  bool some_param(Param::Source source, int index) const {
    return std::any_of(bound_.params.begin(), bound_.params.end(), [&](const auto& params) {
      return std::any_of(params.begin(), params.end(), [&](const BoundParam& param) {
        return param.source == source && param.index == index;
      });
    });
  }

  // What is described but reaches no kernel is a mistake in the description.
  Status check_use() const {
    for (std::size_t i = 0; i < op_.args.size(); ++i) {
      const auto source = op_.args[i].is_tensor() ? Param::Source::kData : Param::Source::kScalar;
      if (!some_param(source, static_cast<int>(i))) {
        return bad(fmt::format("argument \"{}\"", op_.args[i].name), "no kernel takes it");
      }
    }
    for (const TraitSpec& trait : op_.traits) {
      const bool used = std::any_of(
          op_.kernels.begin(), op_.kernels.end(),
          [&](const KernelSpec& kernel) { return pattern_uses(kernel.instantiation, trait.name); });
      const Part part{"trait", trait.name};
      if (!used) {
        return bad(part, fmt::format("no kernel's instantiation names {{{}}}", trait.name));
      }
      if (!op_.choose && trait.name != kPdlTrait && trait.domain.size() > 1) {
        return bad(part, fmt::format("has {} values, but the op has no choose function",
                                     trait.domain.size()));
      }
    }
    if (op_.workspace && !some_param(Param::Source::kWorkspace, -1)) {
      return bad("workspace", "no kernel takes it");
    }
    const bool has_constant = std::any_of(op_.args.begin(), op_.args.end(),
                                          [](const ArgSpec& arg) { return arg.constant; });
    if (!has_constant && some_param(Param::Source::kConstantsReady, -1)) {
      return bad("", "a kernel takes constants_ready, but no argument is constant");
    }
    return {};
  }

  bool constants_switch() const {
    return std::all_of(bound_.params.begin(), bound_.params.end(), [&](const auto& params) {
      bool takes_constant = false;
      bool takes_switch = false;
      for (const BoundParam& param : params) {
        takes_switch |= param.source == Param::Source::kConstantsReady;
        takes_constant |= param.source == Param::Source::kData &&
                          op_.args[static_cast<std::size_t>(param.index)].constant;
      }
      return takes_switch || !takes_constant;
    });
  }

  BoundOp& bound_;
  const Op& op_;
};

}  // namespace

Status bind(Op op, bool builtin, BoundOp& bound) {
  if (Status status = validate(op); !status) {
    return status;
  }
  bound.op = std::move(op);
  bound.builtin = builtin;
  return Binder(bound).run();
}

}  // namespace kiln::registry
