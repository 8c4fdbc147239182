#include "tools/sizes.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::tools {
namespace {

KernelInfo kernel(const std::string& name, std::size_t bytes) {
  KernelInfo info;
  info.name = name;
  info.cubin_bytes = bytes;
  return info;
}

TEST_CASE("Bytes are summed by op and architecture, the largest first") {
  const Sizes sizes = sizes_of({kernel("a N=1 sm_90a", 10), kernel("b/one sm_90a", 5),
                                kernel("b/two N=2 sm_90a", 30), kernel("a N=1 sm_100a", 20),
                                kernel("a N=2 sm_90a", 1)});
  CHECK(sizes.bytes == 66);
  CHECK(sizes.kernels == 5);
  CHECK(sizes.groups == std::vector<Sizes::Group>{{"b", "sm_90a", 2, 35},
                                                  {"a", "sm_100a", 1, 20},
                                                  {"a", "sm_90a", 2, 11}});
  REQUIRE(sizes.largest.size() == 5);
  CHECK(sizes.largest.front() == Sizes::Kernel{"b/two N=2 sm_90a", 30});
  CHECK(sizes.largest.back() == Sizes::Kernel{"a N=2 sm_90a", 1});
}

TEST_CASE("Ten of the largest kernels are named; equal ones by name") {
  std::vector<KernelInfo> kernels;
  for (char name = 'z'; name >= 'a'; --name) {
    kernels.push_back(kernel(std::string(1, name) + " sm_90a", 7));
  }
  const Sizes sizes = sizes_of(kernels);
  REQUIRE(sizes.largest.size() == 10);
  CHECK(sizes.largest.front().name == "a sm_90a");
  CHECK(sizes.largest.back().name == "j sm_90a");
}

TEST_CASE("Nothing has no size") {
  const Sizes sizes = sizes_of({});
  CHECK(sizes.bytes == 0);
  CHECK(sizes.groups.empty());
  CHECK(to_json(sizes)["largest"].empty());
}

}  // namespace
}  // namespace kiln::tools
