#include "tools/wanted.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fnmatch.h>

#include "tools/manifests.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::tools {
namespace {

using runtime::ManifestEntry;

bool matches(const std::vector<std::string>& globs, const std::string& op) {
  return globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
           return fnmatch(glob.c_str(), op.c_str(), 0) == 0;
         });
}

// Globs that match none of these ops.
std::vector<PrebuildReport::Skipped> unmatched(const std::vector<std::string>& globs,
                                               const std::set<std::string>& ops) {
  std::vector<PrebuildReport::Skipped> skipped;
  for (const std::string& glob : globs) {
    if (std::none_of(ops.begin(), ops.end(),
                     [&](const std::string& op) { return matches({glob}, op); })) {
      skipped.push_back({glob, "", "no op has a name like this"});
    }
  }
  return skipped;
}

void add_manifests(const registry::Registry& registry, const WantedRequest& request,
                   Wanted& wanted) {
  runtime::Manifest manifest = read_manifests(request.manifests);
  std::erase_if(manifest.variants,
                [&](const ManifestEntry& entry) { return !matches(request.ops, entry.op); });
  runtime::Resolved resolved = runtime::resolve(
      request.targets.empty() ? manifest : manifest.retargeted(request.targets), registry);
  wanted.variants = std::move(resolved.variants);
  wanted.missing = std::move(resolved.missing);
}

void add_registry(const registry::Registry& registry, const WantedRequest& request,
                  Wanted& wanted) {
  for (const Target& target : request.targets) {
    for (const registry::BoundOp* bound : registry.all()) {
      if (!matches(request.ops, bound->op.name)) {
        continue;
      }
      if (const Status served = registry::serves(bound->op, target); !served) {
        wanted.skipped.push_back({bound->op.name, to_string(target), served.error().message});
        continue;
      }
      const std::vector<Variant> variants = registry::enumerate(*bound, target);
      wanted.variants.insert(wanted.variants.end(), variants.begin(), variants.end());
    }
  }
}

}  // namespace

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  const bool slash = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  const auto total = slash ? std::from_chars(index.ptr + 1, end, shard.count) : index;
  if (!slash || total.ec != std::errc() || total.ptr != end || shard.index < 0 ||
      shard.index >= shard.count || shard.count > Shard::kMost) {
    throw CLI::ValidationError(
        "--shard", fmt::format("'{}' is not I/N with I from 0 to N - 1, such as 0/8, and N at most "
                               "{}",
                               text, Shard::kMost));
  }
  return shard;
}

Wanted wanted(const registry::Registry& registry, const WantedRequest& request) {
  Wanted wanted;
  std::set<std::string> ops;
  for (const registry::BoundOp* bound : registry.all()) {
    ops.insert(bound->op.name);
  }
  wanted.skipped = unmatched(request.ops, ops);
  (request.manifests.empty() ? add_registry : add_manifests)(registry, request, wanted);
  return wanted;
}

}  // namespace kiln::tools
