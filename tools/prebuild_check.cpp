#include "tools/prebuild_check.hpp"

#include <algorithm>
#include <utility>

namespace kiln::tools {

namespace {

void look_up(Lookup& lookup, const runtime::Candidate& kernel, CheckReport& report) {
  const std::string key = kernel.source.digest.hex();
  const auto hit = lookup.find(kernel.source);
  if (!hit) {
    report.lacking.push_back({kernel.unit.label, key});
    return;
  }
  KernelInfo info;
  info.name = kernel.unit.label;
  info.key = key;
  info.cubin_bytes = hit->entry.image.size();
  report.found.push_back(std::move(info));
}

}  // namespace

CheckReport check(Lookup& lookup, const runtime::WorkList& work) {
  CheckReport report;
  for (const runtime::WorkItem& item : work.items) {
    for (const runtime::Candidate& kernel : item.members) {
      look_up(lookup, kernel, report);
    }
  }
  std::sort(report.lacking.begin(), report.lacking.end(),
            [](const auto& a, const auto& b) { return a.kernel < b.kernel; });
  return report;
}

bool lacks_any(Lookup& lookup, const runtime::WorkList& work) {
  return std::any_of(work.items.begin(), work.items.end(), [&](const runtime::WorkItem& item) {
    return std::any_of(
        item.members.begin(), item.members.end(),
        [&](const runtime::Candidate& kernel) { return !lookup.find(kernel.source); });
  });
}

Json to_json(const CheckReport& report, const Lookup& lookup) {
  Json lacking = Json::array();
  for (const CheckReport::Lacking& kernel : report.lacking) {
    lacking.push_back({{"name", kernel.kernel}, {"key", kernel.key}});
  }
  return {{"places", lookup.places()},
          {"toolchain", lookup.toolchain()},
          {"checked", report.found.size() + report.lacking.size()},
          {"lacking", std::move(lacking)}};
}

void print(const CheckReport& report, const Lookup& lookup) {
  for (const CheckReport::Lacking& kernel : report.lacking) {
    print_out("lacks {}\n", kernel.kernel);
  }
  print_out("looked in {}; compiler: {}\n", fmt::join(lookup.places(), ", "), lookup.toolchain());
  print_out("{} checked, {} lacking\n",
            count(report.found.size() + report.lacking.size(), "kernel", "kernels"),
            report.lacking.size());
}

}  // namespace kiln::tools
