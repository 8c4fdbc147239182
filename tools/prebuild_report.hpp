#pragma once

/// \file
/// What `kiln prebuild` says of what it did.

#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "cache/store.hpp"
#include "runtime/manifest.hpp"
#include "tools/console.hpp"

namespace kiln::tools {

/// What was asked for and is not there to be built.
using MissingEntries = std::vector<runtime::Resolved::Missing>;

/// "n128k512_gemm_bf16 M_SPLIT=1 sm_90a: compiled in 0.512 s, 40 registers, 0 spill bytes".
std::string describe_line(const KernelInfo& kernel);

Json to_json(const std::vector<PrebuildReport::Skipped>& skipped);
Json to_json(const MissingEntries& missing);
Json to_json(const PrebuildReport& report, const cache::StoreCounters& counters);

void print_skipped(const std::vector<PrebuildReport::Skipped>& skipped);
void print_summary(const PrebuildReport& report);

/// Complains of globs that matched no op, and gives their number: a misspelt op beside a good one
/// must not pass for a complete prebuild.
std::size_t complain_of_unmatched(const std::vector<PrebuildReport::Skipped>& skipped);
/// Complains of manifest entries that no longer exist, each with its reason.
void complain_of_missing(const MissingEntries& missing);
/// Complains of what failed or could not be stored, and of nothing to do unless that may be.
/// Returns an exit code.
int judge(const PrebuildReport& report, bool may_be_idle);

}  // namespace kiln::tools
