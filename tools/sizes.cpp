#include "tools/sizes.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace kiln::tools {
namespace {

constexpr std::size_t kMostLargest = 10;

// "op[/kernel] TRAIT=VALUE... arch".
std::pair<std::string, std::string> op_and_arch(const std::string& name) {
  return {name.substr(0, name.find_first_of(" /")), name.substr(name.rfind(' ') + 1)};
}

}  // namespace

Sizes sizes_of(const std::vector<KernelInfo>& kernels) {
  Sizes sizes;
  std::map<std::pair<std::string, std::string>, Sizes::Group> groups;
  for (const KernelInfo& kernel : kernels) {
    Sizes::Group& group = groups[op_and_arch(kernel.name)];
    ++group.kernels;
    group.bytes += kernel.cubin_bytes;
    sizes.bytes += kernel.cubin_bytes;
    sizes.largest.push_back({kernel.name, kernel.cubin_bytes});
  }
  sizes.kernels = kernels.size();
  for (auto& [names, group] : groups) {
    std::tie(group.op, group.arch) = names;
    sizes.groups.push_back(std::move(group));
  }
  std::stable_sort(sizes.groups.begin(), sizes.groups.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::sort(sizes.largest.begin(), sizes.largest.end(), [](const auto& a, const auto& b) {
    return std::tie(b.bytes, a.name) < std::tie(a.bytes, b.name);
  });
  sizes.largest.resize(std::min(sizes.largest.size(), kMostLargest));
  return sizes;
}

void print_sizes(const Sizes& sizes) {
  print_out("{:>12}  {:>8}  op and architecture\n", "cubin bytes", "kernels");
  for (const Sizes::Group& group : sizes.groups) {
    print_out("{:>12}  {:>8}  {} {}\n", group.bytes, group.kernels, group.op, group.arch);
  }
  print_out("{:>12}  {:>8}  in all\n", sizes.bytes, sizes.kernels);
  print_out("{:>12}  the largest\n", "");
  for (const Sizes::Kernel& kernel : sizes.largest) {
    print_out("{:>12}  {}\n", kernel.bytes, kernel.name);
  }
}

Json to_json(const Sizes& sizes) {
  Json groups = Json::array();
  for (const Sizes::Group& group : sizes.groups) {
    groups.push_back({{"op", group.op},
                      {"arch", group.arch},
                      {"kernels", group.kernels},
                      {"cubin_bytes", group.bytes}});
  }
  Json largest = Json::array();
  for (const Sizes::Kernel& kernel : sizes.largest) {
    largest.push_back({{"name", kernel.name}, {"cubin_bytes", kernel.bytes}});
  }
  return {{"cubin_bytes", sizes.bytes},
          {"kernels", sizes.kernels},
          {"groups", std::move(groups)},
          {"largest", std::move(largest)}};
}

}  // namespace kiln::tools
