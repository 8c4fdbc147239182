#pragma once

/// \file
/// Cache keys. A key is the whole material that can change an image, written in one injective form;
/// its digest only names the file. Two keys are equal when their material is equal.

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace kiln::cache {

/// XXH3-128. Printed as 32 lower-case hex digits, high half first, as xxhsum -H2 prints it.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  std::string hex() const;
  /// Accepts exactly what hex() writes.
  static Result<Digest> parse(std::string_view hex32);
  auto operator<=>(const Digest&) const = default;
};

Digest digest(std::string_view bytes);

/// Writes key material. Each field carries its type, its name and its length, so that two different
/// sequences of calls never give the same bytes:
///
/// [on-disk.begin]
///   material := kind field*
///   kind     := 'k' name(kind) u64(8) u64(schema version)
///   field    := 't' name u64(length) bytes                        text
///             | 'n' name u64(8) i64                               number
///             | 'l' name u64(length) u64(count) (u64(length) bytes)*   list
///   name     := u32(length) bytes
/// [on-disk.end]
///
/// All integers are little-endian. The schema version is raised by the writer of a kind whenever
/// the meaning of its fields changes.
class KeyWriter {
 public:
  KeyWriter(std::string_view kind, std::uint32_t schema_version);

  /// Makes room for material of about this size.
  KeyWriter& reserve(std::size_t bytes);
  KeyWriter& text(std::string_view name, std::string_view value);
  KeyWriter& number(std::string_view name, std::int64_t value);
  KeyWriter& list(std::string_view name, std::span<const std::string> values);  ///< Order matters.

  /// The material. The writer is spent.
  std::string take() &&;

 private:
  void begin_field(char type, std::string_view name, std::uint64_t value_bytes);

  std::string material_;
};

/// One field of parsed key material.
struct KeyField {
  enum class Type : char { kKind = 'k', kText = 't', kNumber = 'n', kList = 'l' };
  Type type = Type::kText;
  std::string name;                 ///< Of kKind: the kind itself.
  std::vector<std::string> values;  ///< One value, numbers in decimal; of a list, its items.
  bool operator==(const KeyField&) const = default;
};

/// Reads back what a KeyWriter wrote, bounds-checked: the first field is the kind. For listings and
/// for explaining a miss.
Result<std::vector<KeyField>> parse_key(std::string_view material);

/// A field as it lies in the material.
struct KeyFieldView {
  KeyField::Type type = KeyField::Type::kText;
  std::string_view name;
  std::string_view value;  ///< Encoded, and checked to be one of this type.

  /// Of kNumber and kKind.
  std::int64_t number() const;
  /// Of kList.
  std::vector<std::string> list() const;
};

/// As parse_key, without a copy; the views are into the material.
Result<std::vector<KeyFieldView>> split_key(std::string_view material);

/// Text of a key, which holds the sources that a kernel is made of: some ten thousand bytes that
/// never change. Copies share them.
class Material {
 public:
  Material() noexcept = default;
  Material(std::string text) : text_(std::make_shared<const std::string>(std::move(text))) {}

  std::string_view text() const noexcept { return text_ ? *text_ : std::string_view(); }
  operator std::string_view() const noexcept { return text(); }
  bool operator==(const Material& other) const noexcept {
    return text_ == other.text_ || text() == other.text();
  }

 private:
  std::shared_ptr<const std::string> text_;  // Null for an empty one.
};

/// Everything that can change the image except the toolchain.
struct SourceKey {
  SourceKey() = default;
  SourceKey(std::string target_name, std::string key_material)
      : target(std::move(target_name)),
        material(std::move(key_material)),
        digest(cache::digest(material)) {}

  std::string target;  ///< Folder name such as "sm_90a": letters, digits and '_' only.
  Material material;
  Digest digest;  ///< Of the material.
};

/// What a toolchain's folder name says. Ordered from oldest to newest version.
struct ToolchainFolder {
  int major = 0;
  int minor = 0;
  Digest digest;
  auto operator<=>(const ToolchainFolder&) const = default;
  std::string name() const;  ///< "13.0-<32 hex digits>".
};

/// The compiler that made, or would make, an image.
struct ToolchainKey {
  ToolchainKey() = default;
  ToolchainKey(int major_version, int minor_version, std::string key_material)
      : major(major_version),
        minor(minor_version),
        material(std::move(key_material)),
        digest(cache::digest(material)) {}

  int major = 0;
  int minor = 0;
  std::string material;
  Digest digest;  ///< Of the material.

  ToolchainFolder folder_key() const { return {major, minor, digest}; }
  std::string folder() const { return folder_key().name(); }  ///< "13.0-<32 hex digits>".
  static Result<ToolchainFolder> parse_folder(std::string_view name);
};

}  // namespace kiln::cache
