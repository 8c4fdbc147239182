#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "runtime/nvrtc/compiler.hpp"
#include "tests/support/catch.hpp"

namespace kiln::test {

/// The oldest and the newest NVRTC under test, as scripts/fetch_test_nvrtc.sh lays them.
inline constexpr const char* kOldestWheel = "12.3.107";
inline constexpr const char* kNewestWheel = "13.5.37";

/// The machine's own toolchain; nothing, with the reason as a warning, where there is none.
inline std::vector<runtime::Toolchain> own_toolchain() {
  auto found = runtime::find_toolchain(runtime::ToolchainInputs::from_environment(""));
  if (!found) {
    WARN("skipped: " + found.error().message);
    return {};
  }
  return {std::move(*found)};
}

inline std::string wheel_folder(const std::string& version) {
  const char* const folder = std::getenv("KILN_TEST_NVRTC_WHEELS");
  return (std::filesystem::path(folder == nullptr ? KILN_NVRTC_WHEELS : folder) / version).string();
}

/// A fetched wheel's toolchain; nothing, with the reason as a warning, when it was not fetched.
inline std::vector<runtime::Toolchain> wheel_toolchain(const std::string& version) {
  runtime::ToolchainInputs inputs;
  inputs.option = wheel_folder(version);
  auto found = runtime::find_toolchain(inputs);
  if (!found) {
    WARN("skipped for NVRTC " + version +
         ", which scripts/fetch_test_nvrtc.sh fetches: " + found.error().message);
    return {};
  }
  return {std::move(*found)};
}

/// `own` and the oldest and the newest.
inline std::vector<runtime::Toolchain> with_wheels(std::vector<runtime::Toolchain> own) {
  for (const char* version : {kOldestWheel, kNewestWheel}) {
    for (runtime::Toolchain& toolchain : wheel_toolchain(version)) {
      own.push_back(std::move(toolchain));
    }
  }
  return own;
}

/// Every toolchain here: the machine's own, the oldest and the newest.
inline std::vector<runtime::Toolchain> all_toolchains() {
  return with_wheels(own_toolchain());
}

inline runtime::Nvrtc load(const runtime::Toolchain& toolchain) {
  auto loaded = runtime::Nvrtc::load(toolchain);
  if (!loaded) {
    FAIL(loaded.error().message);
  }
  return std::move(*loaded);
}

}  // namespace kiln::test
