#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "cache/store.hpp"
#include "runtime/engine_impl.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/entries.hpp"

namespace kiln::tools {
namespace {

struct CacheArgs {
  std::string cache;
  ExtractArgs extract;
  bool json = false;
};

using Subcommand = int (*)(cache::Store& store, const CacheArgs& args);

// Asking about a cache that was named and is not there is a mistake that must not pass for an empty
// cache: an image build may rely on the answer.
int with_store(const CacheArgs& args, Subcommand subcommand) {
  if (!args.cache.empty() && !std::filesystem::is_directory(args.cache)) {
    throw Error(ErrorCode::kIo, fmt::format("there is no cache directory '{}'.", args.cache));
  }
  const char* variable = std::getenv("KILN_CACHE_DIR");
  const std::filesystem::path named = variable != nullptr ? variable : "";
  if (args.cache.empty() && !named.empty() &&
      (named.is_relative() || !std::filesystem::is_directory(named))) {
    throw Error(ErrorCode::kIo, fmt::format("KILN_CACHE_DIR names '{}', {}.", named.string(),
                                            named.is_relative() ? "which is not an absolute path"
                                                                : "where there is no directory"));
  }
  Engine engine(engine_options(args.cache));
  return subcommand(engine.impl().store(), args);
}

int list(cache::Store& store, const CacheArgs& args) {
  const std::vector<cache::ListedEntry> entries = store.list();
  if (args.json) {
    print_json({{"root", store.root_description()}, {"entries", to_json(entries)}});
    return kSuccess;
  }
  print_entries(entries);
  return kSuccess;
}

int stat(cache::Store& store, const CacheArgs& args) {
  const cache::StoreUsage usage = store.stat();
  if (args.json) {
    print_json({{"root", store.root_description()},
                {"entries", usage.entries},
                {"bytes", usage.bytes},
                {"quarantined", usage.quarantined}});
  } else {
    print_out("{}\n{}, {} bytes, {} in quarantine\n", store.root_description(),
              count(usage.entries, "entry", "entries"), usage.bytes, usage.quarantined);
  }
  return kSuccess;
}

int verify(cache::Store& store, const CacheArgs& args) {
  const std::vector<cache::ListedEntry> entries = store.list();
  const std::vector<cache::ListedEntry> bad = complain_of_bad(entries);
  if (args.json) {
    print_json({{"entries", entries.size()}, {"bad", to_json(bad)}});
  } else {
    print_out("{} checked, {} bad\n", count(entries.size(), "entry", "entries"), bad.size());
  }
  return bad.empty() ? kSuccess : kFailure;
}

int clear(cache::Store& store, const CacheArgs& args) {
  const std::uint64_t removed = value_or_throw(store.clear());
  if (args.json) {
    print_json({{"removed", removed}});
  } else {
    print_out("removed {}\n", count(removed, "entry", "entries"));
  }
  return kSuccess;
}

int extract(cache::Store& store, const CacheArgs& args) {
  return extract_entries(
      store.list(), [&](const cache::ListedEntry& listed) { return store.read(listed); },
      args.extract, args.json);
}

CLI::App* add_subcommand(CLI::App& parent, const char* name, const char* summary, Action& action,
                         const std::shared_ptr<CacheArgs>& args, Subcommand subcommand) {
  CLI::App* command = parent.add_subcommand(name, summary);
  add_cache_option(*command, args->cache);
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback([&action, args, subcommand] {
    action = [args, subcommand] { return with_store(*args, subcommand); };
  });
  return command;
}

}  // namespace

void add_cache_option(CLI::App& command, std::string& cache) {
  command.add_option("--cache", cache, "The cache directory.")
      ->type_name("DIR")
      // The engine finds nothing through the working directory; who types a command does.
      ->transform([](const std::string& text) {
        return text.empty() ? text : std::filesystem::absolute(text).string();
      })
      ->check([](const std::string& text) {
        return text.empty() ? std::string("the directory must not be empty") : std::string();
      });
}

void add_cache(CLI::App& app, Action& action) {
  const auto args = std::make_shared<CacheArgs>();
  CLI::App* cache = app.add_subcommand("cache", "Look after the cache.");
  cache->require_subcommand(1);
  add_subcommand(*cache, "ls", "List the entries.", action, args, list);
  add_subcommand(*cache, "stat", "Say where the cache is and how large.", action, args, stat);
  add_subcommand(*cache, "verify", "Check every entry; exit 1 when one is bad.", action, args,
                 verify);
  add_subcommand(*cache, "clear", "Remove every entry.", action, args, clear);
  add_cache_why(*cache, action);
  CLI::App* extracting = add_subcommand(*cache, "extract", "Copy entries out as plain cubin files.",
                                        action, args, extract);
  add_extract_options(*extracting, args->extract);
}

}  // namespace kiln::tools
