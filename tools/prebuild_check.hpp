#pragma once

/// \file
/// `kiln prebuild --check`: what a cache or pack lacks.

#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/work_list.hpp"
#include "tools/console.hpp"
#include "tools/lookup.hpp"

namespace kiln::tools {

struct CheckReport {
  struct Lacking {
    std::string kernel;  ///< to_string(variant).
    std::string key;     ///< Source part of the cache key, 32 hex digits.
  };
  std::vector<KernelInfo> found;
  std::vector<Lacking> lacking;
};

CheckReport check(Lookup& lookup, const runtime::WorkList& work);
/// Whether that would find anything lacking; looks no further than that.
bool lacks_any(Lookup& lookup, const runtime::WorkList& work);

Json to_json(const CheckReport& report, const Lookup& lookup);
void print(const CheckReport& report, const Lookup& lookup);

}  // namespace kiln::tools
