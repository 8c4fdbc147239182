#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "cache/store.hpp"
#include "runtime/engine_impl.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/entries.hpp"
#include "tools/paths.hpp"

namespace kiln::tools {
namespace {

struct CacheArgs {
  std::string cache;
  ExtractArgs extract;
  std::string max_bytes;  // As typed; checked when it was parsed.
  std::string max_age;
  bool json = false;
};

using Subcommand = int (*)(Engine& engine, const CacheArgs& args);

int with_store(const CacheArgs& args, Subcommand subcommand) {
  require_named_cache(args.cache);
  Engine engine(engine_options(args.cache));
  return subcommand(engine, args);
}

int list(Engine& engine, const CacheArgs& args) {
  cache::Store& store = engine.impl().store();
  const std::vector<cache::ListedEntry> entries = store.list();
  if (args.json) {
    print_json({{"root", store.root_description()}, {"entries", to_json(entries)}});
    return kSuccess;
  }
  print_entries(entries);
  return kSuccess;
}

int stat(Engine& engine, const CacheArgs& args) {
  cache::Store& store = engine.impl().store();
  const cache::StoreUsage usage = store.stat();
  // Too small a number must not pass for the cache's size.
  if (!usage.problem.empty()) {
    throw Error(ErrorCode::kIo, usage.problem + ".");
  }
  if (args.json) {
    Json counters = to_json(store.counters());
    counters["compiles"] = engine.counters().compiles;
    print_json({{"root", store.root_description()},
                {"entries", usage.entries},
                {"bytes", usage.bytes},
                {"quarantined", usage.quarantined},
                {"limits", to_json(store.limits())},
                {"layers", to_json(store.layers())},
                {"counters", counters}});
  } else {
    print_out("{}\n{}, {} bytes, {} in quarantine\n", store.root_description(),
              count(usage.entries, "entry", "entries"), usage.bytes, usage.quarantined);
  }
  return kSuccess;
}

int verify(Engine& engine, const CacheArgs& args) {
  cache::Store& store = engine.impl().store();
  const std::vector<cache::ListedEntry> entries = store.list();
  const std::vector<cache::ListedEntry> bad = complain_of_bad(entries);
  if (args.json) {
    print_json({{"entries", entries.size()}, {"bad", to_json(bad)}});
  } else {
    print_out("{} checked, {} bad\n", count(entries.size(), "entry", "entries"), bad.size());
  }
  return bad.empty() ? kSuccess : kFailure;
}

int clear(Engine& engine, const CacheArgs& args) {
  cache::Store& store = engine.impl().store();
  const std::uint64_t removed = value_or_throw(store.clear());
  if (args.json) {
    print_json({{"removed", removed}});
  } else {
    print_out("removed {}\n", count(removed, "entry", "entries"));
  }
  return kSuccess;
}

int gc(Engine& engine, const CacheArgs& args) {
  cache::Store& store = engine.impl().store();
  cache::Limits limits = store.limits();
  if (!args.max_bytes.empty()) {
    limits.max_bytes = value_or_throw(cache::parse_bytes(args.max_bytes));
  }
  if (!args.max_age.empty()) {
    limits.max_age = value_or_throw(cache::parse_age(args.max_age));
  }
  const cache::GcReport report = value_or_throw(store.gc(limits));
  const cache::TrimReport& trim = report.trim;
  if (args.json) {
    print_json({{"limits", to_json(limits)},
                {"removed", trim.removed},
                {"removed_bytes", trim.removed_bytes},
                {"kept", trim.kept},
                {"kept_bytes", trim.kept_bytes},
                {"removed_temporaries", report.temporaries}});
  } else {
    print_out("removed {}, {} bytes, and {} of dead writers; kept {}, {} bytes{}\n",
              count(trim.removed, "file", "files"), trim.removed_bytes, report.temporaries,
              trim.kept, trim.kept_bytes, limits.any() ? "" : " (no limit is set)");
  }
  if (!trim.problem.empty()) {
    complain(trim.problem);
    return kFailure;
  }
  return kSuccess;
}

int extract(Engine& engine, const CacheArgs& args) {
  cache::Store& store = engine.impl().store();
  return extract_entries(
      store.list(), [&](const cache::ListedEntry& listed) { return store.read(listed); },
      args.extract, args.json);
}

template <class Parse>
void add_limit(CLI::App& command, const char* name, std::string& text, const char* type,
               Parse&& parse, const char* summary) {
  command.add_option(name, text, summary)->type_name(type)->check([parse](const std::string& said) {
    const auto parsed = parse(said);
    return parsed ? std::string() : parsed.error().message;
  });
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
  CLI::App* trimming =
      add_subcommand(*cache, "gc", "Remove what the limits forbid, now.", action, args, gc);
  add_limit(*trimming, "--max-bytes", args->max_bytes, "BYTES", cache::parse_bytes,
            "Most bytes to keep, or with K, M, G (default: KILN_CACHE_MAX_BYTES).");
  add_limit(*trimming, "--max-age", args->max_age, "AGE", cache::parse_age,
            "Seconds since the last use, or with h, d (default: KILN_CACHE_MAX_AGE).");
  add_cache_why(*cache, action);
  add_cache_import(*cache, action);
  CLI::App* extracting = add_subcommand(*cache, "extract", "Copy entries out as plain cubin files.",
                                        action, args, extract);
  add_extract_options(*extracting, args->extract);
}

}  // namespace kiln::tools
