#pragma once

#include <span>
#include <string>

#include <cuda.h>

#include <kiln/engine.hpp>

#include "trait_registry/registry.hpp"

namespace kiln::runtime {

/// A call that has passed its op's check, as a log line has it: "scale: x f32[3, 64] at 0x10000,
/// factor 1.5, out f32[3, 64] at 0x20000; stream 0x0".
std::string call_text(const registry::BoundOp& bound, std::span<const Arg> args, CUstream stream,
                      const LaunchOptions& options);

}  // namespace kiln::runtime
