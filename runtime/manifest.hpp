#pragma once

/// \file
/// Sets of variants by name, as files: what an engine used, for a prebuild to make again.

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/engine.hpp>

#include "base/result.hpp"
#include "cache/file_system.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// A variant by name. Holds the traits that its kernel uses and no others, so that two variants
/// which spell one instantiation are one entry.
struct ManifestEntry {
  std::string op;
  std::string kernel;
  std::map<std::string, std::string> traits;  ///< Values as TraitSpec::spell gives them.
  Target target;

  static ManifestEntry of(const Variant& variant);
  auto operator<=>(const ManifestEntry&) const = default;
};

/// "op/kernel M_SPLIT=4 PDL=true sm_90a".
std::string to_string(const ManifestEntry& entry);

/// ```
/// {"kiln_manifest": 1, "variants": [
/// {"op":"rmsnorm","kernel":"rmsnorm","traits":{"PDL":"true"},"target":"sm_90a"}
/// ]}
/// ```
struct Manifest {
  static constexpr std::size_t kMostBytes = std::size_t{64} << 20;

  std::set<ManifestEntry> variants;

  /// Strict: a field that is wrong, missing, unknown or given twice is kInvalidArgument, and so is
  /// another version. The message begins with `where`, which is most likely the file's path.
  static Result<Manifest> parse(std::string_view json, std::string_view where);
  /// Reads a regular file of at most kMostBytes; kIo when it cannot be read.
  static Result<Manifest> read(cache::FileSystem& disk, const std::string& path);

  /// Sorted, one variant a line, a newline at the end: equal sets give equal text.
  std::string text() const;
  /// Puts the text under `path`, whole or not at all. `temporary` is a name in the same directory
  /// that nobody else writes meanwhile; what lies there is removed. Both paths are canonical.
  Status write(cache::FileSystem& disk, const std::string& path,
               const std::string& temporary) const;
  void merge(const Manifest& other);
  /// The same variants for each of these targets instead of their own.
  Manifest retargeted(std::span<const Target> targets) const;

  bool operator==(const Manifest&) const = default;
};

/// A manifest's entries, found again among the ops.
struct Resolved {
  struct Missing {
    ManifestEntry entry;
    std::string reason;  ///< What there is no longer, and what there is.
  };
  std::vector<Variant> variants;  ///< In the manifest's order. They refer to the registry's ops.
  std::vector<Missing> missing;
};
Resolved resolve(const Manifest& manifest, const registry::Registry& registry);

}  // namespace kiln::runtime
