#include "tools/prebuild_refusals.hpp"

#include <algorithm>
#include <iterator>

#include "runtime/engine_impl.hpp"
#include "runtime/prebuild.hpp"
#include "tools/prebuild_check.hpp"

namespace kiln::tools {
namespace {

bool lacks_any_of(Engine& engine, const Wanted& asked, const Shard& shard) {
  runtime::WorkList work = runtime::WorkList::of(engine.impl().registry(), asked.variants);
  work.keep(shard);
  Lookup lookup(&engine, {});
  return lacks_any(lookup, work);
}

}  // namespace

void refuse_archs(Engine& engine, const std::vector<Target>& named, const Wanted& asked) {
  const Result<runtime::Toolchain>& toolchain = engine.impl().provider().source().toolchain();
  for (const Target& target : named) {
    const std::string reason =
        toolchain ? runtime::why_not_compilable(*toolchain, target) : std::string();
    if (reason.empty()) {
      continue;
    }
    std::vector<Variant> variants;
    std::copy_if(asked.variants.begin(), asked.variants.end(), std::back_inserter(variants),
                 [&](const Variant& variant) { return variant.target == target; });
    Lookup lookup(&engine, {});
    if (variants.empty() ||
        lacks_any(lookup, runtime::WorkList::of(engine.impl().registry(), variants))) {
      throw Error(
          ErrorCode::kUnsupportedTarget,
          fmt::format("nothing was built: --arch names {}, and {}. Leave it out, or name an "
                      "NVRTC that can by KILN_NVRTC.",
                      to_string(target), reason));
    }
  }
}

void refuse_without_place(Engine& engine, const Wanted& asked, const Shard& shard) {
  if (engine.impl().provider().policy() == JitPolicy::kForbid) {
    return;  // Then nothing is made.
  }
  cache::Store& store = engine.impl().store();
  const std::string root = store.writable_root();
  // A root that is not there yet is made only when something is to go there.
  const bool there = !root.empty() && cache::PosixFileSystem().status(root).has_value();
  if (there && store.try_write()) {
    return;
  }
  if (!lacks_any_of(engine, asked, shard)) {
    return;
  }
  if (const Status place = store.try_write(); !place) {
    throw Error(ErrorCode::kIo,
                fmt::format("nothing was built, since the cache cannot take new kernels: {}",
                            place.error().message));
  }
}

void refuse_without_compiler(Engine& engine, const Wanted& asked, const Shard& shard) {
  if (engine.impl().provider().policy() == JitPolicy::kForbid) {
    return;
  }
  const Result<runtime::Toolchain>& toolchain = engine.impl().provider().source().toolchain();
  if (!toolchain && lacks_any_of(engine, asked, shard)) {
    throw Error(toolchain.error().code,
                fmt::format("nothing was built, since there is nothing to compile with: {}",
                            toolchain.error().message));
  }
}

}  // namespace kiln::tools
