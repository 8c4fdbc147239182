#pragma once

#include <kiln/engine.hpp>

namespace kiln::runtime {

/// Engine::warmup: what is stored is loaded, the rest compiled, several at a time, and then loaded.
/// Throws only what request.progress throws.
WarmupReport warmup(Engine::Impl& engine, const WarmupRequest& request);

}  // namespace kiln::runtime
