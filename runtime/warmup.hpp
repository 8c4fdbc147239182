#pragma once

#include <kiln/engine.hpp>

namespace kiln::runtime {

/// Engine::warmup: first everything is compiled that must be, then everything loaded. Throws only
/// what request.progress throws.
WarmupReport warmup(Engine::Impl& engine, const WarmupRequest& request);

}  // namespace kiln::runtime
