#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cache/key.hpp"

/// Finding a toolchain: libnvrtc and the builtins library of the same version from beside it.
/// Finding one reads files only; nothing of NVRTC runs before Nvrtc::load. The one exception: where
/// only the dynamic loader knows libnvrtc's path, libnvrtc is loaded to learn it, and stays loaded.
namespace kiln::runtime {

/// The oldest NVRTC that Kiln works with, and the newest major version.
inline constexpr int kOldestNvrtcMajor = 12;
inline constexpr int kOldestNvrtcMinor = 3;
inline constexpr int kNewestNvrtcMajor = 13;

/// Where to look, in this order. Everything is passed in, so that a search depends on nothing else.
struct ToolchainInputs {
  std::string option;  ///< EngineOptions::nvrtc. A library file or a directory that holds one.
  std::string
      kiln_nvrtc;  ///< KILN_NVRTC, likewise. Unusable when set is an error, not a fall-back.
  bool ask_loader = true;       ///< Whether to ask the dynamic loader (LD_LIBRARY_PATH, its cache).
  std::string ld_library_path;  ///< LD_LIBRARY_PATH: asked by name, so that nothing need be loaded.
  std::string cuda_home;        ///< CUDA_HOME, a toolkit's root.
  std::string cuda_path;        ///< CUDA_PATH, likewise.
  std::string virtual_env;      ///< VIRTUAL_ENV, a Python environment's root.
  std::string conda_prefix;     ///< CONDA_PREFIX, likewise.
  std::string home;             ///< HOME, for Python packages installed for one user.
  std::string system_root = "/";  ///< The root that /usr, /usr/local and /opt are looked for under.

  /// Reads the environment variables named above.
  static ToolchainInputs from_environment(std::string option);
};

/// One usable set: its paths are those that will be loaded.
struct Toolchain {
  std::string nvrtc_path;
  std::string builtins_path;
  int major = 0;
  int minor = 0;
  std::string nvrtc_id;     ///< GNU build id in hex, or "xxh3:" and the XXH3-128 of the file.
  std::string builtins_id;  ///< Likewise.
  std::string origin;  ///< Why this one, for `kiln doctor`: "KILN_NVRTC", "the loader's path", ...
  std::vector<std::string> passed_over;  ///< Incomplete sets met before this one, and why.

  std::string version() const { return std::to_string(major) + "." + std::to_string(minor); }
};

/// Finds a toolchain, or fails with kCompilerUnavailable and every place searched.
Result<Toolchain> find_toolchain(const ToolchainInputs& inputs);

/// The toolchain part of a cache key.
cache::ToolchainKey toolchain_key(const Toolchain& toolchain);

}  // namespace kiln::runtime
