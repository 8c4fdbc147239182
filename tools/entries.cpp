#include "tools/entries.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "tools/commands.hpp"
#include "tools/disassembly.hpp"

namespace kiln::tools {
namespace {

namespace fs = std::filesystem;

// An entry is asked for by its key or the beginning of it; no key asks for all.
bool is_wanted(const cache::ListedEntry& entry, const std::vector<std::string>& keys) {
  return keys.empty() || std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
           return entry.source.starts_with(key);
         });
}

// Names each key that asks for nothing; says whether there was one.
bool complain_of_unmatched(const std::vector<cache::ListedEntry>& entries,
                           const std::vector<std::string>& keys) {
  bool unmatched = false;
  for (const std::string& key : keys) {
    if (std::none_of(entries.begin(), entries.end(), [&](const cache::ListedEntry& entry) {
          return entry.source.starts_with(key);
        })) {
      complain(fmt::format("no entry here has the key '{}'.", key));
      unmatched = true;
    }
  }
  return unmatched;
}

void write_file(const fs::path& path, std::string_view bytes) {
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

Json to_json(const cache::Limits& limits) {
  return {{"max_bytes", limits.max_bytes.value_or(0)},
          {"max_age", limits.max_age.value_or(std::chrono::seconds(0)).count()}};
}

Json to_json(const std::vector<cache::LayerState>& layers) {
  Json out = Json::array();
  for (const cache::LayerState& layer : layers) {
    out.push_back({{"path", layer.name},
                   {"writable", layer.writable},
                   {"usable", layer.usable},
                   {"problem", layer.problem}});
  }
  return out;
}

Json to_json(const cache::StoreCounters& counters) {
  Json layers = Json::array();
  for (const cache::LayerHits& layer : counters.layers) {
    layers.push_back({{"path", layer.layer}, {"hits", layer.hits}});
  }
  return {{"hits", counters.hits},
          {"hits_by_layer", layers},
          {"misses", counters.misses},
          {"bytes_read", counters.bytes_read},
          {"publishes", counters.published},
          {"bytes_written", counters.bytes_written},
          {"write_failures", counters.write_failures},
          {"rejected", counters.rejected},
          {"removed_temporaries", counters.removed_temporaries},
          {"trimmed", counters.trimmed}};
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
  command.add_flag("--ptx", args.ptx, "Also PTX, compiled again by the NVRTC that is here.");
  command.add_flag("--sass", args.sass, "Also SASS; needs nvdisasm.");
  command.add_option("keys", args.keys, "Keys, or their beginnings (default: all).")
      ->type_name("KEY");
}

namespace {

/// Writes an entry's files, whose names differ at the end only.
class Extractor {
 public:
  explicit Extractor(const ExtractArgs& args) : out_(args.out) {
    std::error_code error;
    fs::create_directories(out_, error);
    if (error) {
      throw Error(ErrorCode::kIo, fmt::format("the directory '{}' could not be made: {}.", args.out,
                                              error.message()));
    }
    if (args.ptx) {
      ptx_ = value_or_throw(PtxWriter::make());
    }
    if (args.sass) {
      nvdisasm_ = value_or_throw(find_nvdisasm());
    }
  }

  /// Complains of what it could not write, and is then null.
  std::optional<Json> write(const cache::ListedEntry& listed, const cache::Entry& entry) const {
    const std::string base =
        (out_ / fmt::format("{}-{}-{}", listed.target, listed.toolchain, listed.source)).string();
    const std::string cubin = base + ".cubin";
    write_file(cubin, entry.image);
    Json written = {{"path", cubin}, {"label", listed.label}};
    Status status;
    if (ptx_) {
      status = write_ptx(base + ".ptx", entry);
      written["ptx"] = base + ".ptx";
    }
    if (status && !nvdisasm_.empty()) {
      status = write_sass(nvdisasm_, cubin, base + ".sass");
      written["sass"] = base + ".sass";
    }
    if (!status) {
      complain(fmt::format("{}: {}.", listed.path, status.error().message));
      return std::nullopt;
    }
    return written;
  }

 private:
  Status write_ptx(const std::string& path, const cache::Entry& entry) const {
    const Result<std::string> ptx = ptx_->write(entry);
    if (!ptx) {
      return tl::unexpected(ptx.error());
    }
    write_file(path, *ptx);
    return {};
  }

  fs::path out_;
  std::optional<PtxWriter> ptx_;
  std::string nvdisasm_;
};

}  // namespace

int extract_entries(const std::vector<cache::ListedEntry>& listed_entries, const ReadListed& read,
                    const ExtractArgs& args, bool json) {
  const Extractor extractor(args);
  Json extracted = Json::array();
  int code = complain_of_unmatched(listed_entries, args.keys) ? kFailure : kSuccess;
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
    std::optional<Json> written = extractor.write(listed, *entry);
    if (!written) {
      code = kFailure;
      continue;
    }
    if (!json) {
      print_out("{}  {}\n", (*written)["path"].get<std::string>(), listed.label);
    }
    extracted.push_back(std::move(*written));
  }
  if (json) {
    print_json({{"extracted", extracted}});
  }
  if (extracted.empty() && code == kSuccess) {
    complain("there is no entry here.");
    return kFailure;
  }
  return code;
}

}  // namespace kiln::tools
