#pragma once

#include <string>

#include <kiln/engine.hpp>

namespace kiln::gpu {

/// The op under another name, with these trait values instead of those it would choose.
inline Op forced_variant(const Op& op, const Traits& traits, const std::string& suffix) {
  Op forced = op;
  forced.name += "_forced_" + suffix;
  forced.choose = [chosen = traits](const Problem&, Traits& out) {
    for (const TraitSpec& spec : *chosen.specs()) {
      out.set(spec.name, chosen[spec.name]);
    }
  };
  return forced;
}

}  // namespace kiln::gpu
