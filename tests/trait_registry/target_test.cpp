#include "trait_registry/target.hpp"

#include <set>
#include <string>
#include <vector>

#include <kiln/error.hpp>

#include "tests/support/catch.hpp"

namespace kiln::registry {
namespace {

std::vector<std::string> names(const std::vector<Target>& targets) {
  std::vector<std::string> result;
  for (const Target& target : targets) {
    result.push_back(to_string(target));
  }
  return result;
}

TEST_CASE("A target is spelled as it is parsed") {
  for (const std::string text : {"sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_100a",
                                 "sm_100f", "sm_103a", "sm_120", "sm_120a", "sm_121f"}) {
    CAPTURE(text);
    const Result<Target> target = parse(text);
    REQUIRE(target);
    CHECK(to_string(*target) == text);
    CHECK(parse_target(text) == *target);
  }
  const Target target = parse_target("sm_103f");
  CHECK(target.major == 10);
  CHECK(target.minor == 3);
  CHECK(target.suffix == TargetSuffix::kFamily);
  CHECK(target.compute_capability() == 103);
}

TEST_CASE("Text that is no target is refused with what one looks like") {
  for (const std::string text :
       {"", "sm_", "sm_9", "sm_90b", "sm_90af", "sm_90A", "sm_a", "sm90", "90", "90a", "compute_90",
        "sm_1000", "sm_090", "sm_+90", "sm_ 90", "SM_90", " sm_90", "sm_90 ", "sm_9.0"}) {
    CAPTURE(text);
    const Result<Target> target = parse(text);
    REQUIRE_FALSE(target);
    CHECK(target.error().code == ErrorCode::kUnsupportedTarget);
    CHECK(target.error().message.find("\"" + text + "\"") != std::string::npos);
    CHECK(target.error().message.find("sm_90a") != std::string::npos);
    CHECK_THROWS_AS(parse_target(text), Error);
  }
}

TEST_CASE("The target table says the first NVRTC of each target (field report 93)") {
  struct Row {
    std::string target;
    int major, minor;
  };
  const std::vector<Row> rows = {
      {"sm_75", 12, 3},   {"sm_80", 12, 3},   {"sm_86", 12, 3},   {"sm_87", 12, 3},
      {"sm_88", 13, 0},   {"sm_89", 12, 3},   {"sm_90", 12, 3},   {"sm_90a", 12, 3},
      {"sm_100", 12, 8},  {"sm_100a", 12, 8}, {"sm_100f", 12, 9}, {"sm_103", 12, 9},
      {"sm_103a", 12, 9}, {"sm_103f", 12, 9}, {"sm_110", 13, 0},  {"sm_110a", 13, 0},
      {"sm_110f", 13, 0}, {"sm_120", 12, 8},  {"sm_120a", 12, 8}, {"sm_120f", 12, 9},
      {"sm_121", 12, 9},  {"sm_121a", 12, 9}, {"sm_121f", 12, 9}};
  CHECK(known_targets().size() == rows.size());
  for (const Row& row : rows) {
    CAPTURE(row.target);
    const Target target = parse_target(row.target);
    CHECK(nvrtc_knows(target, row.major, row.minor));
    CHECK(nvrtc_knows(target, row.major, row.minor + 1));
    CHECK(nvrtc_knows(target, 13, 5));
    CHECK_FALSE(nvrtc_knows(target, row.major, row.minor - 1));
    CHECK_FALSE(nvrtc_knows(target, row.major - 1, 99));
  }
  CHECK_FALSE(nvrtc_knows(parse_target("sm_95"), 13, 5));
  CHECK_FALSE(nvrtc_knows(parse_target("sm_80a"), 13, 5));
}

TEST_CASE("The targets of one NVRTC can be listed for a message") {
  CHECK(targets_of_nvrtc(12, 3) == "sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a");
  CHECK(targets_of_nvrtc(12, 8) ==
        "sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_120, sm_120a");
  CHECK(targets_of_nvrtc(11, 8).empty());
}

TEST_CASE("Known targets are in ascending order without repetition") {
  const std::span<const KnownTarget> known = known_targets();
  for (std::size_t i = 1; i < known.size(); ++i) {
    CHECK(known[i - 1].target < known[i].target);
  }
}

TEST_CASE(
    "A device takes its own targets best first, then f of its family, then plain lower minors") {
  using Names = std::vector<std::string>;
  const auto of = [](int major, int minor) { return names(targets_for_device({major, minor})); };
  CHECK(of(7, 5) == Names{"sm_75"});
  CHECK(of(8, 0) == Names{"sm_80"});
  CHECK(of(8, 6) == Names{"sm_86", "sm_80"});
  CHECK(of(8, 9) == Names{"sm_89", "sm_88", "sm_87", "sm_86", "sm_80"});
  CHECK(of(9, 0) == Names{"sm_90a", "sm_90"});
  CHECK(of(10, 0) == Names{"sm_100a", "sm_100f", "sm_100"});
  CHECK(of(10, 3) == Names{"sm_103a", "sm_103f", "sm_103", "sm_100f", "sm_100"});
  CHECK(of(11, 0) == Names{"sm_110a", "sm_110f", "sm_110"});
  CHECK(of(12, 0) == Names{"sm_120a", "sm_120f", "sm_120"});
  CHECK(of(12, 1) == Names{"sm_121a", "sm_121f", "sm_121", "sm_120f", "sm_120"});
}

TEST_CASE("A device that the table does not have still runs plain targets of its major") {
  CHECK(names(targets_for_device({10, 1})) == std::vector<std::string>{"sm_100"});
  CHECK(names(targets_for_device({12, 9})) == std::vector<std::string>{"sm_121", "sm_120"});
  CHECK(targets_for_device({14, 0}).empty());
  CHECK(targets_for_device({0, 0}).empty());
}

// What NVIDIA says runs where, pair by pair, independently of the list's construction.
bool runs(const Target& target, ComputeCapability device) {
  if (target.major != device.major || target.minor > device.minor) {
    return false;
  }
  switch (target.suffix) {
    case TargetSuffix::kArch:
      return target.minor == device.minor;
    case TargetSuffix::kFamily: {
      const std::set<int> members = device.major == 10   ? std::set{0, 3}
                                    : device.major == 12 ? std::set{0, 1}
                                                         : std::set{0};
      return members.count(device.minor) == 1;
    }
    case TargetSuffix::kBase:
      return true;
  }
  return false;
}

TEST_CASE(
    "For each pair of device and target, a target is looked for exactly if the device runs it "
    "(field report 40)") {
  int pairs = 0;
  for (const int capability : {75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121}) {
    const ComputeCapability device{capability / 10, capability % 10};
    const std::vector<Target> listed = targets_for_device(device);
    for (const KnownTarget& known : known_targets()) {
      CAPTURE(capability, to_string(known.target));
      const bool is_listed = std::count(listed.begin(), listed.end(), known.target) == 1;
      CHECK(is_listed == runs(known.target, device));
      ++pairs;
    }
  }
  CHECK(pairs == 13 * 23);
}

}  // namespace
}  // namespace kiln::registry
