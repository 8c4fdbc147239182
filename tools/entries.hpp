#pragma once

/// \file
/// What `kiln cache` and `kiln pack` say of entries, and how they copy them out.

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.hpp"
#include "cache/entry.hpp"
#include "cache/inventory.hpp"
#include "cache/store.hpp"
#include "tools/console.hpp"

namespace kiln::tools {

Json to_json(const cache::ListedEntry& entry);
Json to_json(const std::vector<cache::ListedEntry>& entries);
Json to_json(const cache::Limits& limits);
Json to_json(const std::vector<cache::LayerState>& layers);
Json to_json(const cache::StoreCounters& counters);

/// One line for each entry on stdout.
void print_entries(const std::vector<cache::ListedEntry>& entries);

/// The bad ones, after a complaint about each.
std::vector<cache::ListedEntry> complain_of_bad(const std::vector<cache::ListedEntry>& entries);

struct ExtractArgs {
  std::string out = ".";
  std::vector<std::string> keys;  ///< Or their beginnings; none asks for every entry.
  bool ptx = false;               ///< Also what this machine's NVRTC makes of it.
  bool sass = false;              ///< Also what nvdisasm says of it.
};
void add_extract_options(CLI::App& command, ExtractArgs& args);

/// Copies the entries asked for out as plain images and prints what it did. Leaves bad ones out and
/// then fails, as it does when there was nothing to copy. Returns an exit code.
using ReadListed = std::function<Result<cache::Entry>(const cache::ListedEntry&)>;
int extract_entries(const std::vector<cache::ListedEntry>& listed_entries, const ReadListed& read,
                    const ExtractArgs& args, bool json);

}  // namespace kiln::tools
