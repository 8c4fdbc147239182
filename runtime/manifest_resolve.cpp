#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "runtime/manifest.hpp"
#include "trait_registry/pattern.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

std::string listed(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> kernel_names(const Op& op) {
  std::vector<std::string> names;
  for (const KernelSpec& kernel : op.kernels) {
    names.push_back(kernel.name);
  }
  return names;
}

std::vector<std::string> spellings(const TraitSpec& trait) {
  std::vector<std::string> values;
  for (const std::int64_t value : trait.domain) {
    values.push_back(trait.spell(value));
  }
  return values;
}

/// What the entry says of the kernel's traits that is not so; empty when each exists by itself.
std::string trait_problem(const ManifestEntry& entry, const Op& op, const KernelSpec& kernel) {
  std::vector<std::string> used;
  for (const TraitSpec& trait : op.traits) {
    if (!registry::pattern_uses(kernel.instantiation, trait.name)) {
      continue;
    }
    used.push_back(trait.name);
    const auto given = entry.traits.find(trait.name);
    if (given == entry.traits.end()) {
      return fmt::format("no value is given for the trait {}", trait.name);
    }
    const std::vector<std::string> values = spellings(trait);
    if (std::find(values.begin(), values.end(), given->second) == values.end()) {
      return fmt::format("the trait {} has no value {}; it has {}", trait.name, given->second,
                         listed(values));
    }
  }
  for (const auto& [name, value] : entry.traits) {
    if (std::find(used.begin(), used.end(), name) == used.end()) {
      return fmt::format("the kernel has no trait {}; it has {}", name, listed(used));
    }
  }
  return "";
}

std::string reason(const ManifestEntry& entry, const registry::Registry& registry) {
  const Result<const registry::BoundOp*> bound = registry.find(entry.op);
  if (!bound) {
    return bound.error().message;
  }
  const Op& op = (*bound)->op;
  const auto kernel =
      std::find_if(op.kernels.begin(), op.kernels.end(),
                   [&](const KernelSpec& candidate) { return candidate.name == entry.kernel; });
  if (kernel == op.kernels.end()) {
    return fmt::format("the op has no kernel {}; it has {}", entry.kernel,
                       listed(kernel_names(op)));
  }
  if (const Status served = registry::serves(op, entry.target); !served) {
    return served.error().message;
  }
  std::string problem = trait_problem(entry, op, *kernel);
  return problem.empty() ? "this combination of traits does not exist for the target" : problem;
}

/// The variants that there are, by their entries; each op and target enumerated once.
class Index {
 public:
  explicit Index(const registry::Registry& registry) : registry_(registry) {}

  const Variant* find(const ManifestEntry& entry) {
    const auto [place, fresh] = pairs_.try_emplace({entry.op, entry.target});
    Variants& variants = place->second;
    if (fresh) {
      if (const auto bound = registry_.find(entry.op)) {
        for (const Variant& variant : registry::enumerate(**bound, entry.target)) {
          variants.emplace(ManifestEntry::of(variant), variant);
        }
      }
    }
    const auto found = variants.find(entry);
    return found == variants.end() ? nullptr : &found->second;
  }

 private:
  using Variants = std::map<ManifestEntry, Variant>;
  const registry::Registry& registry_;
  std::map<std::pair<std::string, Target>, Variants> pairs_;
};

}  // namespace

Resolved resolve(const Manifest& manifest, const registry::Registry& registry) {
  Resolved resolved;
  Index index(registry);
  for (const ManifestEntry& entry : manifest.variants) {
    if (const Variant* variant = index.find(entry)) {
      resolved.variants.push_back(*variant);
    } else {
      resolved.missing.push_back({entry, reason(entry, registry)});
    }
  }
  return resolved;
}

}  // namespace kiln::runtime
