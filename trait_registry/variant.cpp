#include "trait_registry/variant.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "trait_registry/pattern.hpp"
#include "trait_registry/sources.hpp"

namespace kiln {

std::string to_string(const Variant& variant) {
  if (variant.op == nullptr || variant.kernel >= variant.op->kernels.size()) {
    return "no kernel";
  }
  const Op& op = *variant.op;
  const KernelSpec& kernel = op.kernels[variant.kernel];
  std::string text = op.name;
  if (op.kernels.size() > 1) {
    text += "/" + kernel.name;
  }
  for (std::size_t i = 0; i < op.traits.size(); ++i) {
    const TraitSpec& trait = op.traits[i];
    if (registry::pattern_uses(kernel.instantiation, trait.name)) {
      text += fmt::format(" {}={}", trait.name, trait.spell(variant.traits.at(i)));
    }
  }
  return text + " " + to_string(variant.target);
}

namespace registry {
namespace {

// Programmatic dependent launch came with 9.0.
constexpr int kFirstWithPdl = 90;

bool has_pdl(const Target& target) {
  return target.compute_capability() >= kFirstWithPdl;
}

bool combination_exists(const Op& op, const Traits& traits, const Target& target) {
  return (has_pdl(target) || traits[kPdlTrait] == 0) && (!op.exists || op.exists(traits, target));
}

// The next combination in the order of the domains, the last trait running fastest; false after the
// last.
bool advance(const std::vector<TraitSpec>& specs, Traits& traits) {
  for (std::size_t i = specs.size(); i-- > 0;) {
    const std::vector<std::int64_t>& domain = specs[i].domain;
    const auto next = std::find(domain.begin(), domain.end(), traits.at(i)) + 1;
    if (next != domain.end()) {
      traits.set(specs[i].name, *next);
      return true;
    }
    traits.set(specs[i].name, domain.front());
  }
  return false;
}

std::string domain_text(const TraitSpec& spec) {
  std::string text;
  for (const std::int64_t value : spec.domain) {
    text += (text.empty() ? "" : ", ") + spec.spell(value);
  }
  return text;
}

Status check_traits(const Variant& variant) {
  const Op& op = *variant.op;
  for (std::size_t i = 0; i < op.traits.size(); ++i) {
    const TraitSpec& spec = op.traits[i];
    const std::int64_t value = variant.traits.at(i);
    if (std::find(spec.domain.begin(), spec.domain.end(), value) == spec.domain.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("op \"{}\", trait \"{}\": expected one of {}, found {}", op.name,
                              spec.name, domain_text(spec), spec.spell(value)));
    }
  }
  if (!combination_exists(op, variant.traits, variant.target)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: this combination of traits does not exist", to_string(variant)));
  }
  return {};
}

}  // namespace

Status serves(const Op& op, const Target& target) {
  if (target.compute_capability() >= op.min_compute_capability) {
    return {};
  }
  return fail(ErrorCode::kUnsupportedTarget,
              fmt::format("op \"{}\" needs compute capability {}.{} or newer, and {} is {}.{}",
                          op.name, op.min_compute_capability / 10, op.min_compute_capability % 10,
                          to_string(target), target.major, target.minor));
}

Traits choose_traits(const BoundOp& bound, const Problem& problem) {
  Traits traits(bound.op.traits);
  if (bound.op.choose) {
    bound.op.choose(problem, traits);
  }
  if (bound.has_pdl_trait) {
    traits.set(kPdlTrait, problem.pdl() && has_pdl(problem.target()) ? 1 : 0);
  }
  return traits;
}

std::vector<Variant> enumerate(const BoundOp& bound, const Target& target) {
  std::vector<Variant> variants;
  if (!serves(bound.op, target)) {
    return variants;
  }
  std::set<std::pair<std::size_t, std::string>> seen;
  Traits traits(bound.op.traits);
  do {
    if (!combination_exists(bound.op, traits, target)) {
      continue;
    }
    for (std::size_t k = 0; k < bound.op.kernels.size(); ++k) {
      const std::string& pattern = bound.op.kernels[k].instantiation;
      if (seen.emplace(k, expand_pattern(pattern, bound.op.traits, traits)).second) {
        variants.push_back({&bound.op, k, traits, target});
      }
    }
  } while (advance(bound.op.traits, traits));
  return variants;
}

std::vector<std::vector<Variant>> compile_groups(const BoundOp& bound, const Target& target) {
  std::map<std::string, std::vector<Variant>> by_source;
  for (const Variant& variant : enumerate(bound, target)) {
    by_source[bound.op.kernels[variant.kernel].source].push_back(variant);
  }
  std::vector<std::vector<Variant>> groups;
  for (const auto& entry : by_source) {
    const std::vector<Variant>& variants = entry.second;
    const std::size_t count = (variants.size() + kMaxGroup - 1) / kMaxGroup;
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = [&](std::size_t part) {
        return variants.begin() + static_cast<std::ptrdiff_t>(variants.size() * part / count);
      };
      groups.emplace_back(at(i), at(i + 1));
    }
  }
  return groups;
}

Result<CompileUnit> compile_unit(const Variant& variant) {
  if (variant.op == nullptr || variant.kernel >= variant.op->kernels.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "the variant names no kernel of an op; Engine::variants gives those there are");
  }
  const Op& op = *variant.op;
  if (Status status = serves(op, variant.target); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  if (Status status = check_traits(variant); !status) {
    return tl::unexpected(std::move(status.error()));
  }
  const KernelSpec& kernel = op.kernels[variant.kernel];
  Result<SourceFile> main = find_source(kernel.source, op.sources);
  if (!main) {
    return tl::unexpected(std::move(main.error()));
  }
  Result<std::vector<SourceFile>> headers = include_closure(*main, op.sources);
  if (!headers) {
    return tl::unexpected(std::move(headers.error()));
  }
  return CompileUnit{to_string(variant),
                     variant.target,
                     std::move(*main),
                     std::move(*headers),
                     expand_pattern(kernel.instantiation, op.traits, variant.traits),
                     op.options};
}

}  // namespace registry
}  // namespace kiln
