#include "tools/lookup.hpp"

#include <utility>

#include "runtime/engine_impl.hpp"
#include "runtime/nvrtc/source_key.hpp"
#include "tools/console.hpp"
#include "tools/paths.hpp"

namespace kiln::tools {
namespace {

cache::PackTrust pack_trust(cache::FileSystem& disk, const runtime::Environment& environment) {
  cache::TrustPolicy policy = cache::TrustPolicy::of_process();
  cache::TrustedKeys keys = cache::read_trusted_keys(disk, environment.trusted_keys, policy);
  return {std::move(policy), std::move(keys)};
}

}  // namespace

Lookup::Lookup(Engine* engine, const std::vector<std::string>& packs)
    : engine_(engine),
      environment_(runtime::Environment::read({})),
      toolchain_(runtime::find_toolchain(environment_.toolchain)),
      logger_(engine_options().log),
      trust_(pack_trust(disk_, environment_)),
      rejects_(disk_, logger_, cache::Modes::readable()),
      packs_(cache::Match::kAny, logger_, rejects_) {
  if (toolchain_) {
    key_ = runtime::toolchain_key(*toolchain_);
  }
  for (const std::string& path : packs) {
    auto layer = std::make_unique<cache::PackLayer>(disk_, canonical_path(disk_, path), &trust_);
    if (const auto usable = layer->check(); !usable) {
      throw Error(ErrorCode::kIo, fmt::format("{} cannot be used: {}.", usable.error().place,
                                              usable.error().reason));
    }
    packs_.add(std::move(layer));
  }
}

std::optional<cache::Hit> Lookup::find(const cache::SourceKey& source) {
  const cache::Query query{{&source, 1}, key_ ? &*key_ : nullptr, std::nullopt};
  std::optional<cache::Hit> hit;
  if (engine_ != nullptr) {
    hit = engine_->impl().store().lookup(query);
  }
  return hit ? std::move(hit) : packs_.find(query);
}

std::string Lookup::toolchain() const {
  return toolchain_ ? fmt::format("NVRTC {} ({})", toolchain_->version(), toolchain_->nvrtc_path)
                    : "none, so that entries of any will do";
}

std::vector<std::string> Lookup::places() const {
  std::vector<std::string> places;
  if (engine_ != nullptr) {
    places.push_back(engine_->impl().store().root_description());
    for (const cache::LayerState& layer : engine_->impl().store().layers()) {
      if (!layer.writable) {
        places.push_back(layer.usable ? layer.name
                                      : fmt::format("{}: {}", layer.name, layer.problem));
      }
    }
  }
  for (const auto& pack : packs_.all()) {
    places.push_back(pack->name());
  }
  return places;
}

}  // namespace kiln::tools
