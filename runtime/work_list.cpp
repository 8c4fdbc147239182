#include "runtime/work_list.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

// How long templates compile is not to be seen from their sources: some unroll a few lines into
// much. The root keeps the order that the sizes give, and the numbers of kernels count for more.
double cost_of(const std::vector<Candidate>& members) {
  const registry::CompileUnit& unit = members.front().unit;
  const std::size_t bytes = std::accumulate(
      unit.headers.begin(), unit.headers.end(), unit.main.text.size(),
      [](std::size_t sum, const SourceFile& header) { return sum + header.text.size(); });
  return std::sqrt(static_cast<double>(bytes)) * static_cast<double>(members.size());
}

struct Wanted {
  std::map<cache::Digest, Candidate> kernels;
  std::map<std::string, cache::Digest> by_label;  // Of all that were ever in `kernels`.

  bool has(const Variant& variant) const {
    const auto known = by_label.find(to_string(variant));
    return known != by_label.end() && kernels.contains(known->second);
  }
  Candidate take(const Variant& variant) {
    return std::move(kernels.extract(by_label.at(to_string(variant))).mapped());
  }
};

// The whole groups of one op and target, which are taken out of `wanted`.
void take_groups(const registry::BoundOp& bound, const Target& target, Wanted& wanted,
                 std::vector<WorkItem>& items) {
  for (const std::vector<Variant>& group : registry::compile_groups(bound, target)) {
    if (std::all_of(group.begin(), group.end(),
                    [&](const Variant& variant) { return wanted.has(variant); })) {
      WorkItem& item = items.emplace_back();
      for (const Variant& variant : group) {
        item.members.push_back(wanted.take(variant));
      }
    }
  }
}

}  // namespace

std::size_t WorkList::kernels() const noexcept {
  return std::accumulate(
      items.begin(), items.end(), std::size_t{0},
      [](std::size_t sum, const WorkItem& item) { return sum + item.members.size(); });
}

WorkList WorkList::of(const registry::Registry& registry, std::span<const Variant> wanted) {
  WorkList list;
  Wanted kernels;
  std::set<std::pair<const Op*, Target>> pairs;
  for (const Variant& variant : wanted) {
    Result<Candidate> candidate = Candidate::of(variant);
    if (!candidate) {
      Failure& failure = candidate.error();
      list.failed.push_back({to_string(variant), failure.code, std::move(failure.message)});
      continue;
    }
    pairs.emplace(variant.op, variant.target);
    const cache::Digest digest = candidate->source.digest;
    kernels.by_label.emplace(candidate->unit.label, digest);
    kernels.kernels.emplace(digest, std::move(*candidate));
  }
  for (const registry::BoundOp* bound : registry.all()) {
    for (const auto& [op, target] : pairs) {
      if (op == &bound->op) {
        take_groups(*bound, target, kernels, list.items);
      }
    }
  }
  for (auto& [digest, candidate] : kernels.kernels) {
    list.items.emplace_back().members.push_back(std::move(candidate));
  }
  for (WorkItem& item : list.items) {
    item.cost = cost_of(item.members);
  }
  std::sort(list.items.begin(), list.items.end(), [](const WorkItem& a, const WorkItem& b) {
    const auto key = [](const WorkItem& item) {
      return std::pair(-item.cost, item.members.front().source.digest);
    };
    return key(a) < key(b);
  });
  return list;
}

// Each item, the dearest first, goes to the shard that has least to do.
void WorkList::keep(const Shard& shard) {
  std::vector<double> load(static_cast<std::size_t>(shard.count), 0);
  std::vector<WorkItem> mine;
  for (WorkItem& item : items) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += item.cost;
    if (least - load.begin() == shard.index) {
      mine.push_back(std::move(item));
    }
  }
  items = std::move(mine);
}

}  // namespace kiln::runtime
