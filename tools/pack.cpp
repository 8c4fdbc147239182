#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "cache/inventory.hpp"
#include "cache/pack_create.hpp"
#include "cache/pack_layer.hpp"
#include "runtime/environment.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/entries.hpp"
#include "tools/paths.hpp"

namespace kiln::tools {
namespace {

struct PackArgs {
  std::string file;
  std::string cache;
  std::string key;
  ExtractArgs extract;
  bool json = false;
};

using Subcommand = int (*)(cache::FileSystem& disk, const PackArgs& args);

/// The pack, open for looking at, whoever made it.
class OpenPack {
 public:
  OpenPack(cache::FileSystem& disk, const std::string& file)
      : layer_(disk, canonical_path(disk, file), nullptr) {
    if (const auto usable = layer_.check(); !usable) {
      throw Error(ErrorCode::kIo, fmt::format("{} cannot be used: {}.", usable.error().place,
                                              usable.error().reason));
    }
  }
  std::vector<cache::ListedEntry> list() { return layer_.list(); }
  const cache::PackReader& reader() const { return *layer_.reader(); }

  Result<cache::Entry> read(const cache::ListedEntry& listed) {
    const auto toolchain = cache::ToolchainKey::parse_folder(listed.toolchain);
    const auto source = cache::Digest::parse(listed.source);
    const cache::EntryAddress address{listed.target, toolchain.value(), source.value()};
    auto file = layer_.read(address);
    return file ? cache::decode_entry_at(address, std::move(file->bytes))
                : Result<cache::Entry>(fail(ErrorCode::kIo, file.error().reason));
  }

 private:
  cache::PackLayer layer_;
};

int create(cache::FileSystem& disk, const PackArgs& args) {
  std::optional<cache::SigningKey> key;
  if (!args.key.empty()) {
    key.emplace(value_or_throw(cache::read_signing_key(disk, canonical_path(disk, args.key))));
  }
  require_directory(args.cache, "there is no cache directory");
  const std::string path = canonical_path(disk, args.file);
  const cache::CreatedPack made = value_or_throw(
      cache::create_pack(disk, canonical_path(disk, args.cache), path, key ? &*key : nullptr));
  if (args.json) {
    print_json({{"path", path},
                {"entries", made.entries},
                {"entry_bytes", made.entry_bytes},
                {"pack_bytes", made.pack_bytes},
                {"signed", key.has_value()}});
  } else {
    print_out("{}: {}, {} bytes for {} bytes of files, {}\n", path,
              count(made.entries, "entry", "entries"), made.pack_bytes, made.entry_bytes,
              key ? "signed" : "not signed");
  }
  return kSuccess;
}

Json signature_json(const cache::PackSignature& signature) {
  return signature.present ? Json(cache::format_public_key(signature.key)) : Json(nullptr);
}

int list(cache::FileSystem& disk, const PackArgs& args) {
  OpenPack pack(disk, args.file);
  const std::vector<cache::ListedEntry> entries = pack.list();
  if (args.json) {
    print_json({{"signed_by", signature_json(pack.reader().signature())},
                {"bytes", pack.reader().file_bytes()},
                {"entries", to_json(entries)}});
  } else {
    print_entries(entries);
  }
  return kSuccess;
}

// Whether an engine of this user with this environment would use the pack; empty if so.
std::string refusal(cache::FileSystem& disk, const std::string& path) {
  const auto environment = runtime::Environment::read({});
  const auto policy = cache::TrustPolicy::of_process();
  const cache::PackTrust trust{policy,
                               cache::read_trusted_keys(disk, environment.trusted_keys, policy)};
  const auto opened = cache::PackReader::open(disk, path, &trust);
  return opened ? "" : opened.error().reason;
}

int verify(cache::FileSystem& disk, const PackArgs& args) {
  OpenPack pack(disk, args.file);
  const std::vector<cache::ListedEntry> entries = pack.list();
  const std::vector<cache::ListedEntry> bad = complain_of_bad(entries);
  const Status whole = pack.reader().verify_whole();
  const std::string path = canonical_path(disk, args.file);
  std::string problem = whole ? refusal(disk, path) : whole.error().message;
  if (!problem.empty()) {
    complain(fmt::format("{} is not to be used: {}.", path, problem));
  }
  const cache::PackSignature& signature = pack.reader().signature();
  if (args.json) {
    print_json({{"entries", entries.size()},
                {"bad", to_json(bad)},
                {"signed_by", signature_json(signature)},
                {"problem", problem}});
  } else {
    print_out(
        "{} checked, {} bad; {}\n", count(entries.size(), "entry", "entries"), bad.size(),
        signature.present ? "signed by " + cache::format_public_key(signature.key) : "not signed");
  }
  return bad.empty() && problem.empty() ? kSuccess : kFailure;
}

int extract(cache::FileSystem& disk, const PackArgs& args) {
  OpenPack pack(disk, args.file);
  return extract_entries(
      pack.list(), [&](const cache::ListedEntry& listed) { return pack.read(listed); },
      args.extract, args.json);
}

int keygen(cache::FileSystem& disk, const PackArgs& args) {
  const std::string path = canonical_path(disk, args.file);
  const cache::SigningKey key = cache::SigningKey::generate();
  value_or_throw(cache::write_key_pair(disk, path, key));
  if (args.json) {
    print_json({{"secret", path},
                {"public", path + ".pub"},
                {"key", cache::format_public_key(key.public_key())}});
  } else {
    print_out(
        "{} signs (kiln pack create --sign); keep it secret\n"
        "{}.pub trusts (KILN_TRUSTED_KEYS): {}\n",
        path, path, cache::format_public_key(key.public_key()));
  }
  return kSuccess;
}

CLI::App* add_subcommand(CLI::App& parent, const char* name, const char* summary, Action& action,
                         const std::shared_ptr<PackArgs>& args, Subcommand subcommand) {
  CLI::App* command = parent.add_subcommand(name, summary);
  command->add_option("FILE", args->file, "The file.")->required();
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback([&action, args, subcommand] {
    action = [args, subcommand] {
      cache::PosixFileSystem disk;
      return subcommand(disk, *args);
    };
  });
  return command;
}

}  // namespace

void add_pack(CLI::App& app, Action& action) {
  const auto args = std::make_shared<PackArgs>();
  CLI::App* pack = app.add_subcommand("pack", "Ship a cache as one file.");
  pack->require_subcommand(1);
  CLI::App* creating = add_subcommand(*pack, "create", "Pack every entry of a cache directory.",
                                      action, args, create);
  add_cache_option(*creating, args->cache);
  creating->get_option("--cache")->required();
  creating->add_option("--sign", args->key, "Sign with this secret key.")->type_name("KEY");
  add_subcommand(*pack, "ls", "List the entries.", action, args, list);
  add_subcommand(
      *pack, "verify",
      "Check every byte and, with KILN_TRUSTED_KEYS, the signature; exit 1 when something "
      "is bad.",
      action, args, verify);
  CLI::App* extracting = add_subcommand(*pack, "extract", "Copy entries out as plain cubin files.",
                                        action, args, extract);
  add_extract_options(*extracting, args->extract);
  add_subcommand(*pack, "keygen", "Make a key pair, FILE and FILE.pub, to sign packs with.", action,
                 args, keygen);
}

}  // namespace kiln::tools
