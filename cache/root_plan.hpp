#pragma once

#include <string>

#include "cache/file_system.hpp"
#include "cache/modes.hpp"
#include "cache/root.hpp"
#include "cache/trust.hpp"

namespace kiln::cache {

/// What the chosen root can be used for, found out without writing anything.
struct RootPlan {
  std::string writable;   ///< Canonical; where new entries go. Empty: nowhere.
  std::string read_only;  ///< Canonical; the chosen root where it can only be read. Else empty.
  bool fallback = false;  ///< `writable` is the fallback root.
  /// What the rule for this role says of the chosen root. A root that is not there yet counts as
  /// trusted; it must be judged again before it is used, and so must the fallback root.
  Verdict verdict;
  TrustRole role = TrustRole::kDefaultRoot;  ///< Of both paths.
  TrustPolicy policy;
  Modes modes;              ///< Of what the store creates.
  std::string description;  ///< "/home/u/.cache/kiln (from HOME), writable".
  std::string warning;      ///< Empty when new entries go where they were meant to, on good terms.
  std::string remedy;       ///< root_remedy() of the choice.
};

/// What the reader of a message about the plan's root can do, as sentences.
std::string remedies(const RootPlan& plan);

RootPlan plan_root(FileSystem& file_system, const RootInputs& inputs);

}  // namespace kiln::cache
