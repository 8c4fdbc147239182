#include "runtime/manifest.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cache/atomic_file.hpp"
#include "trait_registry/pattern.hpp"

namespace kiln::runtime {

ManifestEntry ManifestEntry::of(const Variant& variant) {
  const Op& op = *variant.op;
  const KernelSpec& kernel = op.kernels[variant.kernel];
  ManifestEntry entry{op.name, kernel.name, {}, variant.target};
  for (std::size_t i = 0; i < op.traits.size(); ++i) {
    const TraitSpec& trait = op.traits[i];
    if (registry::pattern_uses(kernel.instantiation, trait.name)) {
      entry.traits.emplace(trait.name, trait.spell(variant.traits.at(i)));
    }
  }
  return entry;
}

std::string to_string(const ManifestEntry& entry) {
  std::string text = entry.op == entry.kernel ? entry.op : entry.op + "/" + entry.kernel;
  for (const auto& [name, value] : entry.traits) {
    text += fmt::format(" {}={}", name, value);
  }
  return text + " " + to_string(entry.target);
}

Result<Manifest> Manifest::read(cache::FileSystem& disk, const std::string& path) {
  const auto failed = [&](int code) {
    return fail(
        ErrorCode::kIo,
        code == EFBIG
            ? fmt::format("the manifest '{}' is larger than {} MiB", path, kMostBytes >> 20)
            : fmt::format("the manifest '{}' cannot be read: {}", path,
                          code == EINVAL ? "it is not a regular file" : cache::errno_text(code)));
  };
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) {
    return failed(error.value());
  }
  const auto canonical = disk.canonical(absolute.string());
  if (!canonical) {
    return failed(canonical.error());
  }
  const auto content = cache::read_file(disk, *canonical, kMostBytes);
  return content ? parse(content->bytes, path) : failed(content.error());
}

std::string Manifest::text() const {
  // In the order in which they are read, and one a line, so that a diff shows what changed.
  using Json = nlohmann::ordered_json;
  std::string text = "{\"kiln_manifest\": 1, \"variants\": [";
  const char* separator = "\n";
  for (const ManifestEntry& entry : variants) {
    const Json line = {{"op", entry.op},
                       {"kernel", entry.kernel},
                       {"traits", Json(entry.traits)},
                       {"target", to_string(entry.target)}};
    text += separator + line.dump(-1, ' ', false, Json::error_handler_t::replace);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

Status Manifest::write(cache::FileSystem& disk, const std::string& path,
                       const std::string& temporary) const {
  constexpr mode_t kMode = 0666;  // As readable as the umask says.
  static_cast<void>(disk.remove(temporary));
  cache::AtomicFile file(disk, temporary, path);
  auto done = file.write(text(), kMode);
  if (done) {
    done = file.commit();
  }
  return done ? Status() : fail(ErrorCode::kIo, done.error().what);
}

void Manifest::merge(const Manifest& other) {
  variants.insert(other.variants.begin(), other.variants.end());
}

Manifest Manifest::retargeted(std::span<const Target> targets) const {
  Manifest moved;
  for (ManifestEntry entry : variants) {
    for (const Target& target : targets) {
      entry.target = target;
      moved.variants.insert(entry);
    }
  }
  return moved;
}

}  // namespace kiln::runtime
