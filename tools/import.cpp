#include <memory>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "runtime/engine_impl.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/paths.hpp"

namespace kiln::tools {
namespace {

struct ImportArgs {
  std::vector<std::string> layers;
  std::string cache;
  bool json = false;
};

struct Imported {
  std::size_t copied = 0;
  std::size_t bad = 0;
};

EngineOptions options_of(const ImportArgs& args) {
  EngineOptions options = engine_options(args.cache);
  for (const std::string& layer : args.layers) {
    require_existence(layer, "there is no directory or pack");
    options.read_only_layers.push_back(absolute_path(layer));
  }
  return options;
}

// Entries go through the same door as a compile's: checked as they are read, published by a rename.
Imported copy(cache::Store& store) {
  Imported done;
  for (const cache::ListedEntry& listed : store.list()) {
    if (listed.layer == store.writable_root()) {
      continue;
    }
    const Result<cache::Entry> entry = store.read(listed);
    if (!listed.ok || !entry) {
      complain(fmt::format("{} is bad and was left out: {}.", listed.path,
                           listed.ok ? entry.error().message : listed.problem));
      ++done.bad;
      continue;
    }
    value_or_throw(store.publish(*entry));
    ++done.copied;
  }
  return done;
}

int import_layers(const ImportArgs& args) {
  Engine engine(options_of(args));
  cache::Store& store = engine.impl().store();
  if (store.writable_root().empty()) {
    throw Error(ErrorCode::kIo, fmt::format("there is no cache to copy to that can be written: {}.",
                                            store.root_description()));
  }
  for (const cache::LayerState& layer : store.layers()) {
    if (!layer.usable && !layer.writable) {
      throw Error(ErrorCode::kIo, fmt::format("{} cannot be used: {}.", layer.name, layer.problem));
    }
  }
  const Imported done = copy(store);
  if (args.json) {
    print_json({{"root", store.writable_root()}, {"copied", done.copied}, {"bad", done.bad}});
  } else {
    print_out("{} copied to {}, {} bad\n", count(done.copied, "entry", "entries"),
              store.writable_root(), done.bad);
  }
  return done.bad == 0 ? kSuccess : kFailure;
}

}  // namespace

void add_cache_import(CLI::App& cache, Action& action) {
  const auto args = std::make_shared<ImportArgs>();
  CLI::App* command = cache.add_subcommand(
      "import",
      "Copy the entries of read-only directories and packs into the cache. A lookup "
      "serves them from where they are and copies nothing.");
  command->add_option("layers", args->layers, "Directories and packs.")
      ->required()
      ->type_name("LAYER");
  add_cache_option(*command, args->cache);
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback([&action, args] { action = [args] { return import_layers(*args); }; });
}

}  // namespace kiln::tools
