#include "trait_registry/validate.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <kiln/tensor.hpp>

#include "trait_registry/part.hpp"
#include "trait_registry/sources.hpp"

namespace kiln::registry {
namespace {

Status bad(const Op& op, const std::string& part, const std::string& what) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("op \"{}\"{}{}: {}", op.name, part.empty() ? "" : ", ", part, what));
}

bool is_name(std::string_view name, std::string_view also = "") {
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           also.find(c) != std::string_view::npos;
  });
}

// Op names appear in globs, labels and lists, so they hold no space and no wildcard.
Status check_op(const Op& op) {
  if (!is_name(op.name, ".:-")) {
    return bad(op, "name", "expected letters, digits, '_', '.', ':' and '-'");
  }
  if (op.args.size() > Problem::kMaxArgs) {
    return bad(op, "arguments",
               fmt::format("has {}, more than {}", op.args.size(), Problem::kMaxArgs));
  }
  if (op.traits.size() > Traits::kMaxTraits) {
    return bad(op, "traits",
               fmt::format("has {}, more than {}", op.traits.size(), Traits::kMaxTraits));
  }
  if (op.kernels.empty()) {
    return bad(op, "kernels", "has none");
  }
  if (op.min_compute_capability < 50 || op.min_compute_capability > 999) {
    return bad(op, "min_compute_capability",
               fmt::format("expected major * 10 + minor, such as 90 for 9.0, found {}",
                           op.min_compute_capability));
  }
  return {};
}

Status check_dim(const Op& op, const Dim& dim, const Part& part) {
  switch (dim.kind) {
    case Dim::Kind::kFixed:
      return dim.value >= 1
                 ? Status()
                 : bad(op, part,
                       fmt::format("a fixed extent must be at least 1, found {}", dim.value));
    case Dim::Kind::kSymbol:
    case Dim::Kind::kLeading:
      return is_name(dim.symbol)
                 ? Status()
                 : bad(op, part, fmt::format("\"{}\" is no name for a symbol", dim.symbol));
    case Dim::Kind::kDerived:
      break;
  }
  return !dim.symbol.empty() && dim.derive
             ? Status()
             : bad(op, part, "a derived extent needs an expression and a function");
}

Status check_shape(const Op& op, const ArgSpec& arg, const Part& part) {
  if (arg.shape.size() > static_cast<std::size_t>(Tensor::kMaxRank)) {
    return bad(op, part,
               fmt::format("has {} axes, more than {}", arg.shape.size(), Tensor::kMaxRank));
  }
  for (const Dim& dim : arg.shape) {
    if (Status status = check_dim(op, dim, part); !status) {
      return status;
    }
    if (dim.kind == Dim::Kind::kLeading &&
        (&dim != arg.shape.data() || arg.layout != Layout::kContiguous)) {
      return bad(op, part,
                 fmt::format("\"{}\" must be the first axis of a contiguous tensor", dim.text()));
    }
  }
  return {};
}

Status check_tensor(const Op& op, const ArgSpec& arg, const Part& part) {
  if (std::set(arg.dtypes.begin(), arg.dtypes.end()).size() != arg.dtypes.size()) {
    return bad(op, part, "lists a dtype twice");
  }
  if (arg.alignment < 1 || (arg.alignment & (arg.alignment - 1)) != 0) {
    return bad(op, part, fmt::format("alignment must be a power of two, found {}", arg.alignment));
  }
  if (arg.constant && arg.access != Access::kRead) {
    return bad(op, part, "is constant, but written");
  }
  return check_shape(op, arg, part);
}

Status check_scalar(const Op& op, const ArgSpec& arg, const Part& part) {
  if (!arg.shape.empty()) {
    return bad(op, part, "has a shape, but no dtype");
  }
  if (arg.access != Access::kRead) {
    return bad(op, part, "is a scalar (it has no dtypes), but written");
  }
  if (arg.constant) {
    return bad(op, part, "is a scalar (it has no dtypes), but constant, which is for tensors");
  }
  return {};
}

Status check_args(const Op& op) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    const ArgSpec& arg = op.args[i];
    if (!is_name(arg.name)) {
      return bad(op, fmt::format("argument {}", i), fmt::format("\"{}\" is no name", arg.name));
    }
    const Part part{"argument", arg.name};
    if (!names.insert(arg.name).second) {
      return bad(op, part, "another argument has the same name");
    }
    Status status = arg.is_tensor() ? check_tensor(op, arg, part) : check_scalar(op, arg, part);
    if (!status) {
      return status;
    }
  }
  return {};
}

Status check_domain(const Op& op, const TraitSpec& trait, const Part& part) {
  using Kind = TraitSpec::Kind;
  if (trait.domain.empty()) {
    return bad(op, part, "its domain is empty");
  }
  if (std::set(trait.domain.begin(), trait.domain.end()).size() != trait.domain.size()) {
    return bad(op, part, "its domain holds a value twice");
  }
  const std::int64_t values =
      trait.kind == Kind::kBool ? 2 : static_cast<std::int64_t>(trait.labels.size());
  for (const std::int64_t value : trait.domain) {
    if (trait.kind != Kind::kInteger && (value < 0 || value >= values)) {
      return bad(op, part,
                 trait.kind == Kind::kBool
                     ? fmt::format("{} is neither 0 nor 1", value)
                     : fmt::format("its domain holds {}, but it has {} labels", value, values));
    }
  }
  if (trait.name == kPdlTrait && (trait.kind != Kind::kBool || trait.domain.size() != 2)) {
    return bad(op, part,
               "the engine sets it to true or false, so it must be a boolean with both values");
  }
  return {};
}

Status check_traits(const Op& op) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < op.traits.size(); ++i) {
    const TraitSpec& trait = op.traits[i];
    if (!is_name(trait.name)) {
      return bad(op, fmt::format("trait {}", i), fmt::format("\"{}\" is no name", trait.name));
    }
    const Part part{"trait", trait.name};
    if (!names.insert(trait.name).second) {
      return bad(op, part, "another trait has the same name");
    }
    if (trait.kind != TraitSpec::Kind::kChoice && !trait.labels.empty()) {
      return bad(op, part, "has labels, which only a choice has");
    }
    if (std::set(trait.labels.begin(), trait.labels.end()).size() != trait.labels.size()) {
      return bad(op, part, "has a label twice");
    }
    for (const std::string& label : trait.labels) {
      if (!is_name(label, ":")) {
        return bad(op, part, fmt::format("\"{}\" is no label", label));
      }
    }
    if (Status status = check_domain(op, trait, part); !status) {
      return status;
    }
  }
  return {};
}

Status check_kernels(const Op& op) {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < op.kernels.size(); ++i) {
    const KernelSpec& kernel = op.kernels[i];
    if (!is_name(kernel.name)) {
      return bad(op, fmt::format("kernel {}", i), fmt::format("\"{}\" is no name", kernel.name));
    }
    const Part part{"kernel", kernel.name};
    if (!names.insert(kernel.name).second) {
      return bad(op, part, "another kernel has the same name");
    }
    if (kernel.instantiation.empty()) {
      return bad(op, part, "has no instantiation");
    }
    if (!kernel.geometry) {
      return bad(op, part, "has no geometry function");
    }
  }
  return {};
}

Status check_sources(const Op& op) {
  std::set<std::string_view> names;
  for (const SourceFile& source : op.sources) {
    const Part part{"source", source.name};
    if (source.name.empty()) {
      return bad(op, part, "has no name");
    }
    if (!names.insert(source.name).second) {
      return bad(op, part, "another source has the same name");
    }
    if (find_embedded(source.name) != nullptr) {
      return bad(op, part,
                 "is the name of one of Kiln's own files, which would include it instead");
    }
    if (source.text.find('\0') != std::string::npos) {
      return bad(op, part, "holds a NUL byte, at which a compiler would stop reading");
    }
  }
  return {};
}

// Options that would bring something into a compile that its key does not hold, or that change what
// kind of thing comes out.
constexpr std::array<std::string_view, 26> kRefusedOptions = {"-I",
                                                              "--include-path",
                                                              "-include",
                                                              "--pre-include",
                                                              "-arch",
                                                              "--gpu-architecture",
                                                              "-gencode",
                                                              "--generate-code",
                                                              "-optf",
                                                              "--options-file",
                                                              "-pch",
                                                              "--pch",
                                                              "--create-pch",
                                                              "--use-pch",
                                                              "-dlto",
                                                              "--dlink-time-opt",
                                                              "-rdc",
                                                              "--relocatable-device-code",
                                                              "-dc",
                                                              "-ewp",
                                                              "--extensible-whole-program",
                                                              "--device-c",
                                                              "-time",
                                                              "--time",
                                                              "-fdevice-time-trace",
                                                              "--fdevice-time-trace"};

Status check_options(const Op& op) {
  for (const std::string& option : op.options) {
    for (const std::string_view refused : kRefusedOptions) {
      // -Ifolder is written without a separator; every other one ends at '='.
      const std::string_view name = refused == "-I"
                                        ? std::string_view(option).substr(0, refused.size())
                                        : std::string_view(option).substr(0, option.find('='));
      if (name == refused) {
        return bad(
            op, fmt::format("option \"{}\"", option),
            "is not allowed: includes, targets and what a compile gives are Kiln's to decide, "
            "so that the cache key holds everything");
      }
    }
    // NVRTC trims blanks, so one in front would carry a refused option past the list above.
    const bool starts_blank = option.empty() || option.front() == ' ' || option.front() == '\t' ||
                              option.front() == '\n' || option.front() == '\r' ||
                              option.front() == '\v' || option.front() == '\f';
    if (starts_blank || option.find('\0') != std::string::npos) {
      return bad(op, "options", "holds one that is empty, starts with a blank, or has a NUL byte");
    }
  }
  return {};
}

}  // namespace

Status validate(const Op& op) {
  for (const auto check :
       {check_op, check_args, check_traits, check_kernels, check_sources, check_options}) {
    if (Status status = check(op); !status) {
      return status;
    }
  }
  return {};
}

}  // namespace kiln::registry
