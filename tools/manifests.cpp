#include "tools/manifests.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <kiln/engine.hpp>

#include "runtime/engine_impl.hpp"
#include "runtime/manifest_lock.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/paths.hpp"

namespace kiln::tools {
namespace {

using runtime::Manifest;
using runtime::ManifestEntry;
using runtime::Resolved;

struct ManifestArgs {
  std::vector<std::string> files;
  std::string out;
  bool json = false;
};

constexpr std::chrono::seconds kPatience{10};

int merge(const ManifestArgs& args) {
  cache::PosixFileSystem disk;
  const std::string path = canonical_path(disk, args.out);
  // The rename would put a file in the place of a device or a pipe.
  if (const auto there = disk.status(path);
      there && there->kind != cache::FileStatus::Kind::kFile) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is there already and is not a plain file; name a file", path));
  }
  // An engine may record into the file, which may be one of those read.
  const auto lock = value_or_throw(runtime::ManifestLock::take(disk, path, kPatience));
  if (!lock) {
    throw Error(ErrorCode::kIo,
                fmt::format("others have kept {} locked for {} s; is a process that records into "
                            "it stopped?",
                            path, kPatience.count()));
  }
  const Manifest merged = read_manifests(args.files);
  value_or_throw(merged.write(disk, path, fmt::format("{}.{}.tmp", path, getpid())));
  if (args.json) {
    print_json({{"path", path}, {"variants", merged.variants.size()}});
  } else {
    print_out("{}: {}\n", path, count(merged.variants.size(), "variant", "variants"));
  }
  return kSuccess;
}

Json to_json(const ManifestEntry& entry, const std::string& problem) {
  return {{"op", entry.op},
          {"kernel", entry.kernel},
          {"traits", Json(entry.traits)},
          {"arch", to_string(entry.target)},
          {"problem", problem}};
}

int show(const ManifestArgs& args) {
  const Manifest manifest = read_manifests(args.files);
  Engine engine(engine_options());
  const Resolved resolved = runtime::resolve(manifest, engine.impl().registry());
  std::map<ManifestEntry, std::string> problems;
  for (const Resolved::Missing& missing : resolved.missing) {
    problems.emplace(missing.entry, missing.reason);
  }
  Json list = Json::array();
  for (const ManifestEntry& entry : manifest.variants) {
    const auto problem = problems.find(entry);
    const bool exists = problem == problems.end();
    if (args.json) {
      list.push_back(to_json(entry, exists ? "" : problem->second));
    } else if (exists) {
      print_out("{}\n", to_string(entry));
    } else {
      print_out("{}\n    no longer exists: {}\n", to_string(entry), problem->second);
    }
  }
  if (args.json) {
    print_json({{"variants", std::move(list)}, {"missing", problems.size()}});
  } else {
    print_out("{}, {} of which no longer exist\n",
              count(manifest.variants.size(), "variant", "variants"), problems.size());
  }
  return kSuccess;
}

CLI::App* add_subcommand(CLI::App& parent, const char* name, const char* summary, Action& action,
                         const std::shared_ptr<ManifestArgs>& args,
                         int (*subcommand)(const ManifestArgs&)) {
  CLI::App* command = parent.add_subcommand(name, summary);
  command->add_option("FILE", args->files, "Manifests.")->required();
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback(
      [&action, args, subcommand] { action = [args, subcommand] { return subcommand(*args); }; });
  return command;
}

}  // namespace

Manifest read_manifests(const std::vector<std::string>& paths) {
  cache::PosixFileSystem disk;
  Manifest merged;
  for (const std::string& path : paths) {
    merged.merge(value_or_throw(Manifest::read(disk, path)));
  }
  return merged;
}

void add_manifest(CLI::App& app, Action& action) {
  const auto args = std::make_shared<ManifestArgs>();
  CLI::App* manifest = app.add_subcommand(
      "manifest",
      "Look at lists of variants, which KILN_RECORD=FILE records and prebuild --manifest makes.");
  manifest->require_subcommand(1);
  CLI::App* merging =
      add_subcommand(*manifest, "merge", "Write what is in any of the files.", action, args, merge);
  merging->add_option("-o,--out", args->out, "The file to write; it may be one of those read.")
      ->required()
      ->type_name("FILE");
  add_subcommand(*manifest, "show", "List the variants, and which no longer exist.", action, args,
                 show);
}

}  // namespace kiln::tools
