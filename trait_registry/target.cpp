#include "trait_registry/target.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace kiln {

std::string to_string(const Target& target) {
  std::string text = fmt::format("sm_{}{}", target.major, target.minor);
  if (target.suffix != TargetSuffix::kBase) {
    text.push_back(static_cast<char>(target.suffix));
  }
  return text;
}

Target parse_target(const std::string& text) {
  return value_or_throw(registry::parse(text));
}

namespace registry {
namespace {

constexpr TargetSuffix kBase = TargetSuffix::kBase;
constexpr TargetSuffix kArch = TargetSuffix::kArch;
constexpr TargetSuffix kFamily = TargetSuffix::kFamily;

// What NVRTC 12.3, 12.8, 12.9, 13.0 and 13.5 were each seen to compile. sm_70 and sm_72 went away
// with 13.0; sm_101 was the name of sm_110 until then.
constexpr std::array kTargets = {
    KnownTarget{{7, 5, kBase}, 12, 3},    KnownTarget{{8, 0, kBase}, 12, 3},
    KnownTarget{{8, 6, kBase}, 12, 3},    KnownTarget{{8, 7, kBase}, 12, 3},
    KnownTarget{{8, 8, kBase}, 13, 0},    KnownTarget{{8, 9, kBase}, 12, 3},
    KnownTarget{{9, 0, kBase}, 12, 3},    KnownTarget{{9, 0, kArch}, 12, 3},
    KnownTarget{{10, 0, kBase}, 12, 8},   KnownTarget{{10, 0, kArch}, 12, 8},
    KnownTarget{{10, 0, kFamily}, 12, 9}, KnownTarget{{10, 3, kBase}, 12, 9},
    KnownTarget{{10, 3, kArch}, 12, 9},   KnownTarget{{10, 3, kFamily}, 12, 9},
    KnownTarget{{11, 0, kBase}, 13, 0},   KnownTarget{{11, 0, kArch}, 13, 0},
    KnownTarget{{11, 0, kFamily}, 13, 0}, KnownTarget{{12, 0, kBase}, 12, 8},
    KnownTarget{{12, 0, kArch}, 12, 8},   KnownTarget{{12, 0, kFamily}, 12, 9},
    KnownTarget{{12, 1, kBase}, 12, 9},   KnownTarget{{12, 1, kArch}, 12, 9},
    KnownTarget{{12, 1, kFamily}, 12, 9},
};

bool is_known(const Target& target) {
  return std::any_of(kTargets.begin(), kTargets.end(),
                     [&](const KnownTarget& known) { return known.target == target; });
}

}  // namespace

std::span<const KnownTarget> known_targets() noexcept {
  return kTargets;
}

Result<Target> parse(std::string_view text) {
  constexpr std::string_view kPrefix = "sm_";
  const auto malformed = [&] {
    return fail(
        ErrorCode::kUnsupportedTarget,
        fmt::format("\"{}\" is not a target: expected sm_<major><minor>, then \"a\", \"f\" or "
                    "nothing, such as sm_90, sm_90a or sm_100f",
                    text));
  };
  if (text.substr(0, kPrefix.size()) != kPrefix) {
    return malformed();
  }
  std::string_view digits = text.substr(kPrefix.size());
  Target target;
  if (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f')) {
    target.suffix = digits.back() == 'a' ? kArch : kFamily;
    digits.remove_suffix(1);
  }
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (digits.size() < 2 || digits.size() > 3 || digits.front() == '0' ||
      !std::all_of(digits.begin(), digits.end(), is_digit)) {
    return malformed();
  }
  int capability = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), capability);
  target.major = capability / 10;
  target.minor = capability % 10;
  return target;
}

bool nvrtc_knows(const Target& target, int major, int minor) noexcept {
  return std::any_of(kTargets.begin(), kTargets.end(), [&](const KnownTarget& known) {
    return known.target == target && (major > known.nvrtc_major ||
                                      (major == known.nvrtc_major && minor >= known.nvrtc_minor));
  });
}

std::string targets_of_nvrtc(int major, int minor) {
  std::string list;
  for (const KnownTarget& known : kTargets) {
    if (nvrtc_knows(known.target, major, minor)) {
      list += (list.empty() ? "" : ", ") + to_string(known.target);
    }
  }
  return list;
}

std::vector<Target> targets_for_device(ComputeCapability device) {
  std::vector<Target> targets;
  const auto add = [&](int minor, TargetSuffix suffix) {
    const Target target{device.major, minor, suffix};
    if (is_known(target)) {
      targets.push_back(target);
    }
  };
  add(device.minor, kArch);
  add(device.minor, kFamily);
  add(device.minor, kBase);
  // A family is a list of devices, not a range of numbers: one that the table does not have is in
  // none as far as anybody can say (10.1, for example, was not in the family of 10.0 and 10.3).
  if (is_known({device.major, device.minor, kFamily})) {
    for (int minor = device.minor - 1; minor >= 0; --minor) {
      add(minor, kFamily);
    }
  }
  for (int minor = device.minor - 1; minor >= 0; --minor) {
    add(minor, kBase);
  }
  return targets;
}

}  // namespace registry
}  // namespace kiln
