#include "tools/entries.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "tools/commands.hpp"

namespace kiln::tools {
namespace {

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

}  // namespace

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

void print_entries(const std::vector<cache::ListedEntry>& entries) {
  for (const cache::ListedEntry& entry : entries) {
    print_out("{:<10} {:>8} {} {}\n", entry.target, entry.bytes, entry.source,
              entry.ok ? entry.label : "BAD: " + entry.problem);
  }
}

std::vector<cache::ListedEntry> complain_of_bad(const std::vector<cache::ListedEntry>& entries) {
  std::vector<cache::ListedEntry> bad;
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(bad),
               [](const cache::ListedEntry& entry) { return !entry.ok; });
  for (const cache::ListedEntry& entry : bad) {
    complain(fmt::format("{} is bad: {}.", entry.path, entry.problem));
  }
  return bad;
}

void add_extract_options(CLI::App& command, ExtractArgs& args) {
  command.add_option("--out", args.out, "Where to put them (default: here).")->type_name("DIR");
  command.add_option("keys", args.keys, "Keys, or their beginnings (default: all).")
      ->type_name("KEY");
}

int extract_entries(const std::vector<cache::ListedEntry>& listed_entries, const ReadListed& read,
                    const ExtractArgs& args, bool json) {
  std::error_code error;
  std::filesystem::create_directories(args.out, error);
  if (error) {
    throw Error(ErrorCode::kIo, fmt::format("the directory '{}' could not be made: {}.", args.out,
                                            error.message()));
  }
  Json extracted = Json::array();
  int code = kSuccess;
  for (const cache::ListedEntry& listed : listed_entries) {
    if (!is_wanted(listed, args.keys)) {
      continue;
    }
    const Result<cache::Entry> entry = read(listed);
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
    if (!json) {
      print_out("{}  {}\n", path.string(), listed.label);
    }
  }
  if (json) {
    print_json({{"extracted", extracted}});
  }
  if (extracted.empty() && code == kSuccess) {
    complain("no entry here has such a key.");
    return kFailure;
  }
  return code;
}

}  // namespace kiln::tools
