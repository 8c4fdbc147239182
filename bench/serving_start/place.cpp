#include "bench/serving_start/place.hpp"

#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "cache/pack_create.hpp"
#include "cache/store.hpp"
#include "runtime/nvrtc/source_key.hpp"

namespace kiln::bench {
namespace {

std::string ops_file(const Place& place) {
  return place.folder + "/ops";
}
// A line for each image: its path, then the symbols; no symbol holds a space.
std::string images_file(const Place& place) {
  return place.folder + "/images";
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

cache::Entry entry_of(cache::Store& store, const Variant& variant) {
  const cache::SourceKey source =
      runtime::source_key(value_or_throw(registry::compile_unit(variant)));
  std::optional<cache::Hit> hit = store.lookup({{&source, 1}, nullptr, {}});
  if (!hit) {
    throw Error(
        ErrorCode::kNotLoaded,
        fmt::format("{} is not in the cache, which is {}; kiln prebuild --arch {} puts it "
                    "there",
                    to_string(variant), store.root_description(), to_string(variant.target)));
  }
  return std::move(hit->entry);
}

}  // namespace

void Place::fill(std::span<const std::string> ops, std::span<const Variant> variants) const {
  std::ofstream(ops_file(*this)) << fmt::format("{}\n", fmt::join(ops, "\n"));
  cache::StoreOptions options;
  options.root.option = directory;
  options.publishes = false;
  cache::Store store(std::move(options));
  std::map<std::string, std::vector<std::string>> symbols;  // By image.
  for (const Variant& variant : variants) {
    cache::Entry entry = entry_of(store, variant);
    symbols[std::string(entry.image.bytes())].push_back(std::move(entry.symbol));
  }
  std::ofstream list(images_file(*this));
  std::size_t number = 0;
  for (const auto& [image, names] : symbols) {
    const std::string path = fmt::format("{}/{}.image", folder, number++);
    std::ofstream(path, std::ios::binary) << image;
    list << fmt::format("{} {}\n", path, fmt::join(names, " "));
  }
  cache::PosixFileSystem disk;
  value_or_throw(cache::create_pack(disk, disk.canonical(directory).value_or(directory), pack()));
}

std::vector<std::string> Place::ops() const {
  return lines_of(ops_file(*this));
}

std::vector<Image> Place::images() const {
  std::vector<Image> images;
  for (const std::string& line : lines_of(images_file(*this))) {
    std::istringstream words(line);
    Image& image = images.emplace_back();
    words >> image.path;
    for (std::string symbol; words >> symbol;) {
      image.symbols.push_back(symbol);
    }
  }
  return images;
}

std::vector<Variant> every_variant(Engine& engine, std::span<const std::string> ops) {
  const Target target = engine.device_targets().at(0);
  std::vector<Variant> all;
  for (const std::string& name : ops) {
    const std::vector<Variant> variants = engine.variants(engine.op(name), target);
    all.insert(all.end(), variants.begin(), variants.end());
  }
  return all;
}

}  // namespace kiln::bench
