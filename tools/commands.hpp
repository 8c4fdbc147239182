#pragma once

#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <kiln/target.hpp>

namespace kiln::tools {

/// Exit codes of the kiln command, promised in --help.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;

/// What the chosen subcommand does once the whole command line has been accepted; returns an exit
/// code. Kept apart from parsing so that an error at run time cannot be taken for a usage error.
using Action = std::function<int()>;

/// Each adds one subcommand to `app` and, when the user chose it, sets `action`.
void add_ops(CLI::App& app, Action& action);
void add_prebuild(CLI::App& app, Action& action);
void add_manifest(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_cache(CLI::App& app, Action& action);
void add_pack(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

/// `kiln cache why`, which has a file of its own.
void add_cache_why(CLI::App& cache, Action& action);
/// Likewise `kiln cache import`.
void add_cache_import(CLI::App& cache, Action& action);

/// The architectures that --arch named, each once. A malformed one is wrong usage: throws
/// CLI::ValidationError.
std::vector<Target> parse_archs(const std::vector<std::string>& archs);

/// The option --cache DIR. An empty DIR is refused: it is most likely an unset shell variable, and
/// must not be taken for the user's own cache.
void add_cache_option(CLI::App& command, std::string& cache);

}  // namespace kiln::tools
