#pragma once

/// \file
/// Why a lookup misses: which part of a key differs from the nearest entry that is stored.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/key.hpp"
#include "cache/store.hpp"

namespace kiln::cache {

/// One part of a key that is not the same. Long values are shortened to their size and digest; a
/// part that one side lacks is "absent" there.
struct KeyDifference {
  std::string field;
  std::string asked;
  std::string stored;
  bool operator==(const KeyDifference&) const = default;
};

/// Compares two materials field by field. Where a field "f name" stands before a field "f", the
/// latter goes by that name, so that inserting one file does not make all later ones differ.
/// Material that does not parse differs as a whole.
std::vector<KeyDifference> differences(std::string_view asked, std::string_view stored);

/// The stored entry most like what was asked for.
struct Nearest {
  ListedEntry entry;
  /// Empty when the keys are the same: then the entry is bad, or its layer may not serve it.
  std::vector<KeyDifference> differences;
};

/// Knows the keys of everything stored. Reads every entry once, when it is made.
class Explainer {
 public:
  explicit Explainer(Store& store);

  /// Entries of the same label come first, then those that differ in the fewest parts. The
  /// toolchain counts where one is given. Nothing when nothing is stored.
  std::optional<Nearest> nearest(const SourceKey& source, std::string_view label,
                                 const ToolchainKey* toolchain) const;

 private:
  struct Known {
    ListedEntry listed;
    std::string source;     // Material; empty for an entry that is bad.
    std::string toolchain;  // Likewise.
  };
  std::vector<Known> known_;
};

}  // namespace kiln::cache
