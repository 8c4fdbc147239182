#include "runtime/kernel_provider.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runtime/nvrtc/source_key.hpp"

namespace kiln::runtime {
namespace {

std::size_t index_of(std::span<const Candidate> candidates, const cache::SourceKey& source) {
  std::size_t index = 0;
  while (index + 1 < candidates.size() && candidates[index].source.digest != source.digest) {
    ++index;
  }
  return index;
}

cache::Query query_for(const std::vector<cache::SourceKey>& sources,
                       const cache::ToolchainKey* toolchain, std::optional<int> driver_major,
                       bool asked_before = false) {
  return {.sources = sources,
          .toolchain = toolchain,
          .max_toolchain_major = driver_major,
          .asked_before = asked_before};
}

std::vector<cache::SourceKey> sources_of(std::span<const Candidate> candidates) {
  std::vector<cache::SourceKey> sources;
  sources.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    sources.push_back(candidate.source);
  }
  return sources;
}

// The first candidate that this NVRTC can make.
Result<std::size_t> compilable(std::span<const Candidate> candidates, const Nvrtc& nvrtc) {
  std::optional<Failure> first;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    Status status = nvrtc.check_target(candidates[i].unit.target);
    if (status) {
      return i;
    }
    if (!first) {
      first = std::move(status.error());
    }
  }
  first->message = candidates.front().unit.label + ": " + first->message;
  return tl::unexpected(std::move(*first));
}

}  // namespace

Result<Candidate> Candidate::of(const Variant& variant) {
  Result<registry::CompileUnit> unit = registry::compile_unit(variant);
  if (!unit) {
    return tl::unexpected(std::move(unit.error()));
  }
  cache::SourceKey source = source_key(*unit);
  return Candidate{std::move(*unit), std::move(source)};
}

KernelProvider::KernelProvider(cache::Store& store, ToolchainInputs inputs)
    : store_(store), inputs_(std::move(inputs)) {}

const Result<Toolchain>& KernelProvider::toolchain() {
  std::call_once(found_once_, [this] {
    toolchain_.emplace(find_toolchain(inputs_));
    if (*toolchain_) {
      toolchain_key_ = toolchain_key(**toolchain_);
    }
  });
  return *toolchain_;
}

const Result<Nvrtc>& KernelProvider::compiler() {
  std::call_once(loaded_once_, [this] {
    const Result<Toolchain>& found = toolchain();
    if (found) {
      compiler_.emplace(Nvrtc::load(*found));
    } else {
      compiler_.emplace(tl::unexpected(found.error()));
    }
  });
  return *compiler_;
}

std::shared_ptr<const cache::Entry> KernelProvider::kept(const cache::SourceKey& source) {
  const std::lock_guard lock(kept_mutex_);
  const auto found = kept_.find(source.digest);
  return found != kept_.end() ? found->second : nullptr;
}

bool KernelProvider::cached(std::span<const Candidate> candidates,
                            std::optional<int> driver_major) {
  const std::vector<cache::SourceKey> sources = sources_of(candidates);
  const auto is_stored = [&](const cache::ToolchainKey* key) {
    return store_.lookup(query_for(sources, key, driver_major)).has_value();
  };
  if (!toolchain()) {
    return is_stored(nullptr);
  }
  return is_stored(&toolchain_key_) || (!compiler() && is_stored(nullptr));
}

Result<Obtained> KernelProvider::obtain(std::span<const Candidate> candidates, const Accept& accept,
                                        std::optional<int> driver_major) {
  Request request{candidates, accept, driver_major};
  std::optional<Result<Obtained>> found = find(request);
  return found ? std::move(*found) : find_or_compile(request);
}

std::optional<Result<Obtained>> KernelProvider::find(Request& request) {
  if (auto found = find_kept(request)) {
    return found;
  }
  std::optional<Result<Obtained>> found;
  if (toolchain()) {
    found = find_stored(request, &toolchain_key_);
  }
  // A toolchain that turns out not to load is like none: entries of any other will do.
  if (!found && !(toolchain() && compiler())) {
    found = find_stored(request, nullptr);
  }
  return found;
}

std::optional<Result<Obtained>> KernelProvider::find_kept(const Request& request) {
  for (std::size_t i = 0; i < request.candidates.size(); ++i) {
    if (auto entry = kept(request.candidates[i].source)) {
      if (request.accept) {
        if (auto accepted = request.accept(*entry); !accepted) {
          return tl::unexpected(std::move(accepted.error().failure));
        }
      }
      return Obtained{std::move(entry), i, true, false, {}};
    }
  }
  return std::nullopt;
}

std::optional<Result<Obtained>> KernelProvider::find_stored(Request& request,
                                                            const cache::ToolchainKey* key) {
  const std::vector<cache::SourceKey> sources = sources_of(request.candidates);
  const cache::Query query = query_for(sources, key, request.driver_major, request.asked_before);
  // Ends, since a rejected entry is not given again.
  while (std::optional<cache::Hit> hit = store_.lookup(query)) {
    if (request.accept) {
      auto accepted = request.accept(hit->entry);
      if (!accepted && !accepted.error().image_refused) {
        return tl::unexpected(std::move(accepted.error().failure));
      }
      if (!accepted) {
        const std::string& reason = accepted.error().failure.message;
        request.refusals +=
            fmt::format(" The driver refused the cached {}: {}.", hit->path, reason);
        store_.reject(*hit, reason);
        continue;
      }
    }
    const std::size_t index = index_of(request.candidates, hit->entry.source);
    return Obtained{
        std::make_shared<const cache::Entry>(std::move(hit->entry)), index, true, true, {}};
  }
  return std::nullopt;
}

Result<Obtained> KernelProvider::find_or_compile(Request& request) {
  const Result<Nvrtc>& nvrtc = compiler();
  if (!nvrtc) {
    return fail(nvrtc.error().code,
                fmt::format("{} is not in the cache ({}) and cannot be "
                            "compiled: {}{}",
                            request.candidates.front().unit.label, store_.root_description(),
                            nvrtc.error().message, request.refusals));
  }
  const Result<std::size_t> index = compilable(request.candidates, *nvrtc);
  if (!index) {
    return tl::unexpected(index.error());
  }
  // Held until the kernel is stored, so that who waits for it finds it.
  const cache::CompileLock lock = store_.lock(request.candidates[*index].source, toolchain_key_);
  request.asked_before = true;
  if (auto found = find(request)) {
    return std::move(*found);
  }
  return compile(*nvrtc, request, *index);
}

Result<Obtained> KernelProvider::compile(const Nvrtc& nvrtc, const Request& request,
                                         std::size_t index) {
  const Candidate& candidate = request.candidates[index];
  compiles_.fetch_add(1, std::memory_order_relaxed);
  Result<CompiledProgram> compiled = nvrtc.compile({&candidate.unit, 1});
  if (!compiled) {
    return tl::unexpected(std::move(compiled.error()));
  }
  auto entry = std::make_shared<const cache::Entry>(
      cache::Entry{.source = candidate.source,
                   .toolchain = toolchain_key_,
                   .symbol = std::move(compiled->kernels.front().symbol),
                   .label = candidate.unit.label,
                   .resources = compiled->kernels.front().resources,
                   .pdl_wait = compiled->kernels.front().pdl_wait,
                   .image = std::move(compiled->cubin)});
  if (request.accept) {
    auto accepted = request.accept(*entry);
    if (!accepted && accepted.error().image_refused) {
      return fail(ErrorCode::kDriverError,
                  fmt::format("the driver refuses {} as NVRTC {} ({}) just compiled it: {}.{}",
                              candidate.unit.label, nvrtc.toolchain().version(),
                              nvrtc.toolchain().nvrtc_path, accepted.error().failure.message,
                              request.refusals));
    }
    if (!accepted) {
      return tl::unexpected(std::move(accepted.error().failure));
    }
  }
  Obtained obtained{std::move(entry), index, false, false, {}};
  store(obtained);
  return obtained;
}

void KernelProvider::store(Obtained& obtained) {
  Status published = store_.publish(*obtained.entry);
  obtained.stored = published.has_value();
  if (!published) {
    obtained.store_problem = std::move(published.error().message);
    const std::lock_guard lock(kept_mutex_);
    kept_.emplace(obtained.entry->source.digest, obtained.entry);
  }
}

KernelInfo kernel_info(const Candidate& candidate, const Obtained& obtained, double seconds) {
  const cache::Entry& entry = *obtained.entry;
  return {.name = candidate.unit.label,
          .symbol = entry.symbol,
          .key = candidate.source.digest.hex(),
          .from_cache = obtained.from_cache,
          .stored = obtained.stored,
          .cubin_bytes = entry.image.size(),
          .registers = entry.resources.registers,
          .shared_bytes = entry.resources.shared_bytes,
          .spill_bytes = entry.resources.spill_store_bytes + entry.resources.spill_load_bytes,
          .pdl_wait = entry.pdl_wait,
          .seconds = seconds};
}

}  // namespace kiln::runtime
