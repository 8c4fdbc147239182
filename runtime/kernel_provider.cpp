#include "runtime/kernel_provider.hpp"

#include <algorithm>
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

// What the compiler made of one unit of a program.
std::shared_ptr<const cache::Entry> entry_of(const Candidate& candidate,
                                             const cache::ToolchainKey& toolchain,
                                             CompiledKernel kernel,
                                             std::vector<std::string> members, std::string image) {
  return std::make_shared<const cache::Entry>(cache::Entry{.source = candidate.source,
                                                           .toolchain = toolchain,
                                                           .symbol = std::move(kernel.symbol),
                                                           .label = candidate.unit.label,
                                                           .resources = kernel.resources,
                                                           .pdl_wait = kernel.pdl_wait,
                                                           .members = std::move(members),
                                                           .image = std::move(image)});
}

// A kernel of another thread's making, or one that is kept.
Result<Obtained> take_over(std::shared_ptr<const cache::Entry> entry, std::size_t index,
                           const Accept* accept, bool stored) {
  if (accept != nullptr) {
    if (auto accepted = (*accept)(*entry); !accepted) {
      return tl::unexpected(std::move(accepted.error().failure));
    }
  }
  return Obtained{std::move(entry), index, true, stored,
                  stored ? "" : "no cache directory took it when it was compiled"};
}

// Whether trying again in this process can only give the same.
bool is_lasting(ErrorCode code) {
  return code == ErrorCode::kCompileFailed || code == ErrorCode::kCompilerLost;
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

KernelProvider::KernelProvider(cache::Store& store, ProviderOptions options, const Logger& logger,
                               Trace& trace)
    : store_(store),
      options_(std::move(options)),
      logger_(logger),
      trace_(trace),
      source_(options_.compiler, logger) {}

std::optional<Result<Obtained>> KernelProvider::find_cached(std::span<const Candidate> candidates,
                                                            const Accept& accept,
                                                            std::optional<int> driver_major,
                                                            bool asked_before) {
  Request request{candidates, accept ? &accept : nullptr, driver_major, asked_before};
  return find(request);
}

bool KernelProvider::cached(std::span<const Candidate> candidates,
                            std::optional<int> driver_major) {
  const std::optional<Result<Obtained>> found = find_cached(candidates, {}, driver_major);
  return found && found->has_value();
}

Result<Obtained> KernelProvider::obtain(std::span<const Candidate> candidates, const Accept& accept,
                                        std::optional<int> driver_major, bool asked_before) {
  Request request{candidates, accept ? &accept : nullptr, driver_major, asked_before};
  if (std::optional<Result<Obtained>> found = find(request)) {
    return std::move(*found);
  }
  const Result<std::size_t> index = compilable(request);
  if (!index) {
    return tl::unexpected(index.error());
  }
  FlightTable::Joined joined = flights_.join(candidates[*index].source.digest);
  if (joined.failure) {
    return tl::unexpected(std::move(*joined.failure));
  }
  if (joined.entry) {
    const bool kept = flights_.kept(candidates[*index].source.digest) != nullptr;
    return take_over(std::move(joined.entry), *index, request.accept, !kept);
  }
  return lead(std::move(*joined.flight), request, *index);
}

std::optional<Result<Obtained>> KernelProvider::find(Request& request) {
  if (auto found = find_kept(request)) {
    return found;
  }
  std::optional<Result<Obtained>> found;
  if (source_.toolchain()) {
    found = find_stored(request, &source_.toolchain_key());
  }
  // A toolchain that turns out not to load is like none: entries of any other will do.
  if (!found && !(source_.toolchain() && source_.compiler())) {
    found = find_stored(request, nullptr);
  }
  return found;
}

std::optional<Result<Obtained>> KernelProvider::find_kept(const Request& request) {
  for (std::size_t i = 0; i < request.candidates.size(); ++i) {
    if (auto entry = flights_.kept(request.candidates[i].source.digest)) {
      return take_over(std::move(entry), i, request.accept, false);
    }
  }
  return std::nullopt;
}

std::optional<Result<Obtained>> KernelProvider::find_stored(Request& request,
                                                            const cache::ToolchainKey* key) {
  const std::vector<cache::SourceKey> sources = sources_of(request.candidates);
  const cache::Query query = query_for(sources, key, request.driver_major, request.asked_before);
  TraceSpan span(trace_, request.candidates.front().unit.label, "cache");
  // Ends, since a rejected entry is not given again.
  while (std::optional<cache::Hit> hit = store_.lookup(query)) {
    if (request.accept != nullptr) {
      auto accepted = (*request.accept)(hit->entry);
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
    span.arg("hit", true).arg("entry", hit->path);
    const std::size_t index = index_of(request.candidates, hit->entry.source);
    return Obtained{
        std::make_shared<const cache::Entry>(std::move(hit->entry)), index, true, true, {}};
  }
  span.arg("hit", false);
  return std::nullopt;
}

Failure KernelProvider::forbidden(const Request& request) const {
  const registry::CompileUnit& unit = request.candidates.front().unit;
  const std::string root = store_.writable_root();
  return {ErrorCode::kCompileForbidden,
          fmt::format("{} is in no cache (the root is {}) and compiling is forbidden here "
                      "(EngineOptions::jit, KILN_JIT). This provides it, where compiling is "
                      "allowed (KILN_JIT=allow): kiln prebuild --op {} --arch {}{}; for an op of "
                      "the engine's own, Engine::prebuild where it is registered.{}",
                      unit.label, store_.root_description(),
                      unit.label.substr(0, unit.label.find(' ')), to_string(unit.target),
                      root.empty() ? "" : fmt::format(" --cache '{}'", root), request.refusals)};
}

Result<std::size_t> KernelProvider::compilable(const Request& request) {
  if (!may_compile()) {
    return tl::unexpected(forbidden(request));
  }
  const std::string& label = request.candidates.front().unit.label;
  const Result<Compiler*> compiler = source_.compiler();
  if (!compiler) {
    return fail(compiler.error().code,
                fmt::format("{} is not in the cache ({}) and cannot be compiled: {}{}", label,
                            store_.root_description(), compiler.error().message, request.refusals));
  }
  std::optional<Failure> first;
  for (std::size_t i = 0; i < request.candidates.size(); ++i) {
    Status status = (*compiler)->check_target(request.candidates[i].unit.target);
    if (status) {
      return i;
    }
    if (!first) {
      first = std::move(status.error());
    }
  }
  return fail(first->code, label + ": " + first->message);
}

Result<Obtained> KernelProvider::lead(FlightTable::Flight flight, Request& request,
                                      std::size_t index) {
  // Held until the kernel is stored, so that who waits for it finds it.
  const cache::CompileLock lock =
      store_.lock(request.candidates[index].source, source_.toolchain_key());
  request.asked_before = true;
  if (std::optional<Result<Obtained>> found = find(request)) {
    if (*found && (*found)->candidate == index) {
      flight.land((*found)->entry, false);
    }
    return std::move(*found);
  }
  return compile(std::move(flight), request, index);
}

Result<CompiledProgram> KernelProvider::run_compiler(std::span<const registry::CompileUnit> units) {
  compiles_.fetch_add(units.size(), std::memory_order_relaxed);
  for (const registry::CompileUnit& unit : units) {
    if (options_.policy == JitPolicy::kWarn) {
      logger_.warn_once(
          "jit " + unit.label,
          fmt::format("compile: {} was in no cache and is compiled now; prebuild it.", unit.label));
    }
  }
  TraceSpan span(trace_, units.front().label, "compile");
  span.arg("kernels", units.size());
  return (*source_.compiler())->compile(units);
}

Result<Obtained> KernelProvider::compile(FlightTable::Flight flight, const Request& request,
                                         std::size_t index) {
  const Candidate& candidate = request.candidates[index];
  Result<CompiledProgram> compiled = run_compiler({&candidate.unit, 1});
  if (!compiled) {
    if (is_lasting(compiled.error().code)) {
      flight.fail(compiled.error());
    }
    return tl::unexpected(std::move(compiled.error()));
  }
  auto entry = entry_of(candidate, source_.toolchain_key(), std::move(compiled->kernels.front()),
                        {}, std::move(compiled->cubin));
  if (request.accept != nullptr) {
    auto accepted = (*request.accept)(*entry);
    if (!accepted && accepted.error().image_refused) {
      const Toolchain& toolchain = *source_.toolchain();
      Failure failure{ErrorCode::kDriverError,
                      fmt::format("the driver refuses {} as NVRTC {} ({}) just compiled it: {}.{}",
                                  candidate.unit.label, toolchain.version(), toolchain.nvrtc_path,
                                  accepted.error().failure.message, request.refusals)};
      flight.fail(failure);
      return tl::unexpected(std::move(failure));
    }
    if (!accepted) {
      return tl::unexpected(std::move(accepted.error().failure));
    }
  }
  return store(std::move(flight), std::move(entry), index);
}

Obtained KernelProvider::store(FlightTable::Flight flight,
                               std::shared_ptr<const cache::Entry> entry, std::size_t index) {
  Status published = store_.publish(*entry);
  flight.land(entry, !published);
  return {std::move(entry), index, false, published.has_value(),
          published ? std::string() : std::move(published.error().message)};
}

std::vector<Result<Obtained>> KernelProvider::obtain_group(std::span<const Candidate> members) {
  std::vector<std::optional<Result<Obtained>>> found(members.size());
  bool none = members.size() > 1 && may_compile();
  for (std::size_t i = 0; i < members.size(); ++i) {
    Request request{.candidates = members.subspan(i, 1)};
    found[i] = find(request);
    none = none && !found[i];
  }
  if (none) {
    if (auto made = compile_group(members)) {
      return std::move(*made);
    }
  }
  std::vector<Result<Obtained>> results;
  for (std::size_t i = 0; i < members.size(); ++i) {
    results.push_back(found[i] ? std::move(*found[i]) : obtain(members.subspan(i, 1)));
  }
  return results;
}

std::optional<std::vector<Result<Obtained>>> KernelProvider::compile_group(
    std::span<const Candidate> members) {
  if (!compilable({.candidates = members})) {
    return std::nullopt;
  }
  std::vector<FlightTable::Flight> flights;
  std::vector<registry::CompileUnit> units;
  std::vector<std::string> digests;
  for (const Candidate& member : members) {
    std::optional<FlightTable::Flight> flight = flights_.try_lead(member.source.digest);
    if (!flight) {
      return std::nullopt;
    }
    flights.push_back(std::move(*flight));
    units.push_back(member.unit);
    digests.push_back(member.source.digest.hex());
  }
  // One lock stands for the group, since nobody may hold two: processes that compile the group wait
  // for each other, and one that compiles another member alone does not.
  const cache::CompileLock lock = store_.lock(members.front().source, source_.toolchain_key());
  const bool any_made = std::any_of(members.begin(), members.end(), [&](const Candidate& member) {
    Request request{.candidates = {&member, 1}, .asked_before = true};
    return find(request).has_value();
  });
  if (any_made) {
    return std::nullopt;
  }
  Result<CompiledProgram> compiled = run_compiler(units);
  if (!compiled) {
    return std::nullopt;
  }
  std::vector<Result<Obtained>> made;
  for (std::size_t i = 0; i < members.size(); ++i) {
    made.emplace_back(store(std::move(flights[i]),
                            entry_of(members[i], source_.toolchain_key(),
                                     std::move(compiled->kernels[i]), digests, compiled->cubin),
                            0));
  }
  return made;
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
