#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <kiln/engine.hpp>

#include "cache/store.hpp"
#include "runtime/engine_impl.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"

namespace kiln::tools {
namespace {

struct CacheArgs {
  std::string cache;
  std::string out = ".";
  std::vector<std::string> keys;
  bool json = false;
};

using Subcommand = int (*)(cache::Store& store, const CacheArgs& args);

// Asking about a cache that was named and is not there is a mistake that must not pass for an empty
// cache: an image build may rely on the answer.
int with_store(const CacheArgs& args, Subcommand subcommand) {
  if (!args.cache.empty() && !std::filesystem::is_directory(args.cache)) {
    throw Error(ErrorCode::kIo, fmt::format("there is no cache directory '{}'.", args.cache));
  }
  const char* named = std::getenv("KILN_CACHE_DIR");
  if (args.cache.empty() && named != nullptr && *named != '\0' &&
      !std::filesystem::is_directory(named)) {
    throw Error(ErrorCode::kIo,
                fmt::format("KILN_CACHE_DIR names '{}', where there is no directory.", named));
  }
  Engine engine(engine_options(args.cache));
  return subcommand(engine.impl().store(), args);
}

Json to_json(const cache::ListedEntry& entry) {
  return {{"path", entry.path},   {"arch", entry.target}, {"toolchain", entry.toolchain},
          {"key", entry.source},  {"label", entry.label}, {"symbol", entry.symbol},
          {"bytes", entry.bytes}, {"ok", entry.ok},       {"problem", entry.problem},
          {"layer", entry.layer}};
}

Json to_json(const std::vector<cache::ListedEntry>& entries) {
  Json out = Json::array();
  for (const cache::ListedEntry& entry : entries) {
    out.push_back(to_json(entry));
  }
  return out;
}

int list(cache::Store& store, const CacheArgs& args) {
  const std::vector<cache::ListedEntry> entries = store.list();
  if (args.json) {
    print_json({{"root", store.root_description()}, {"entries", to_json(entries)}});
    return kSuccess;
  }
  for (const cache::ListedEntry& entry : entries) {
    print_out("{:<10} {:>8} {} {}\n", entry.target, entry.bytes, entry.source,
              entry.ok ? entry.label : "BAD: " + entry.problem);
  }
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
  std::vector<cache::ListedEntry> bad;
  for (const cache::ListedEntry& entry : entries) {
    if (!entry.ok) {
      bad.push_back(entry);
      complain(fmt::format("{} is bad: {}.", entry.path, entry.problem));
    }
  }
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

// An entry is asked for by its key or the beginning of it; no key asks for all.
bool is_wanted(const cache::ListedEntry& entry, const std::vector<std::string>& keys) {
  if (keys.empty()) {
    return true;
  }
  for (const std::string& key : keys) {
    if (entry.source.starts_with(key)) {
      return true;
    }
  }
  return false;
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    throw Error(ErrorCode::kIo, fmt::format("'{}' could not be written.", path.string()));
  }
}

int extract(cache::Store& store, const CacheArgs& args) {
  std::error_code error;
  std::filesystem::create_directories(args.out, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("the directory '{}' could not be made: {}.", args.out,
                                            error.message()));
  }
  Json extracted = Json::array();
  int code = kSuccess;
  for (const cache::ListedEntry& listed : store.list()) {
    if (!is_wanted(listed, args.keys)) {
      continue;
    }
    const Result<cache::Entry> entry = store.read(listed);
    if (!listed.ok || !entry) {
      complain(fmt::format("{} is bad and was left out: {}.", listed.path,
                           listed.ok ? entry.error().message : listed.problem));
      code = kFailure;
      continue;
    }
    const std::filesystem::path path =
        std::filesystem::path(args.out) /
        fmt::format("{}-{}-{}.cubin", listed.target, listed.toolchain, listed.source);
    write_file(path, entry->image);
    extracted.push_back({{"path", path.string()}, {"label", listed.label}});
    if (!args.json) {
      print_out("{}  {}\n", path.string(), listed.label);
    }
  }
  if (args.json) {
    print_json({{"extracted", extracted}});
  }
  if (extracted.empty() && code == kSuccess) {
    complain("no entry of this cache has such a key.");
    return kFailure;
  }
  return code;
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
  add_cache_why(*cache, action);
  CLI::App* extracting = add_subcommand(*cache, "extract", "Copy entries out as plain cubin files.",
                                        action, args, extract);
  extracting->add_option("--out", args->out, "Where to put them (default: here).")
      ->type_name("DIR");
  extracting->add_option("keys", args->keys, "Keys, or their beginnings (default: all).")
      ->type_name("KEY");
}

}  // namespace kiln::tools
