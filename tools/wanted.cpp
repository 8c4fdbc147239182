#include "tools/wanted.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>

#include "runtime/prebuild.hpp"
#include "tools/manifests.hpp"

namespace kiln::tools {
namespace {

using runtime::ManifestEntry;

void add_manifests(const registry::Registry& registry, const WantedRequest& request,
                   Wanted& wanted) {
  runtime::Manifest manifest = read_manifests(request.manifests);
  std::erase_if(manifest.variants, [&](const ManifestEntry& entry) {
    return !runtime::is_named(request.ops, entry.op);
  });
  runtime::Resolved resolved = runtime::resolve(
      request.targets.empty() ? manifest : manifest.retargeted(request.targets), registry);
  wanted.variants = std::move(resolved.variants);
  wanted.missing = std::move(resolved.missing);
}

void add_registry(const registry::Registry& registry, const WantedRequest& request,
                  Wanted& wanted) {
  runtime::Selection selection = runtime::select(registry, request.ops, request.targets);
  for (const runtime::Selection::Pair& pair : selection.pairs) {
    wanted.variants.insert(wanted.variants.end(), pair.variants.begin(), pair.variants.end());
  }
  std::move(selection.skipped.begin(), selection.skipped.end(), std::back_inserter(wanted.skipped));
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
  wanted.skipped = runtime::unmatched(registry, request.ops);
  (request.manifests.empty() ? add_registry : add_manifests)(registry, request, wanted);
  return wanted;
}

}  // namespace kiln::tools
