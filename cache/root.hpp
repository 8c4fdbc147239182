#pragma once

/// \file
/// Which directory is the cache's root. A pure function of its inputs: no environment, no file
/// system, no user database.

#include <cstdint>
#include <string>

#include "cache/trust.hpp"

namespace kiln::cache {

/// Read once by the engine and passed in. Empty means unset.
struct RootInputs {
  std::string option;          ///< The API's or command line's setting.
  std::string kiln_cache_dir;  ///< KILN_CACHE_DIR
  std::string xdg_cache_home;  ///< XDG_CACHE_HOME
  std::string home;            ///< HOME
  std::string tmpdir;          ///< TMPDIR
  /// Who asks. Left alone, it is this process, which has agreed to nothing.
  TrustPolicy trust = TrustPolicy::of_process();
};

struct RootChoice {
  enum class Origin : std::uint8_t { kOption, kEnvironment, kXdg, kHome, kNone };

  std::string path;  ///< Empty when the origin is kNone.
  Origin origin = Origin::kNone;
  std::string why;      ///< "from KILN_CACHE_DIR", "from HOME", ...: for messages.
  std::string problem;  ///< Why a named root cannot even be looked for. Else empty.

  /// Somebody asked for this very directory, so no other may take its place.
  bool named() const noexcept {
    return origin == Origin::kOption || origin == Origin::kEnvironment;
  }
};

/// The first that is set of: the option, KILN_CACHE_DIR, $XDG_CACHE_HOME/kiln, $HOME/.cache/kiln.
/// Nothing is found through the working directory: the last two count only when absolute, and a
/// named root that is relative is a problem.
RootChoice choose_root(const RootInputs& inputs);

/// What the reader of a message about the chosen root can do, as a sentence.
std::string root_remedy(RootChoice::Origin origin);

/// Where new entries go when the default root cannot be written: <TMPDIR or /tmp>/kiln-<uid>.
std::string fallback_root(const RootInputs& inputs);

}  // namespace kiln::cache
