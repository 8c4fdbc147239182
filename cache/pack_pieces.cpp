#include "cache/pack_pieces.hpp"

#include <optional>
#include <utility>

#include "cache/bytes.hpp"
#include "cache/entry.hpp"
#include "cache/key.hpp"

namespace kiln::cache {
namespace {

// Collects the long values of key material, the grammar of which is in cache/key.hpp, in the order
// in which they lie. A text may itself be key material; then its own values are taken.
class LongValues {
 public:
  /// False when the bytes are not key material to their end; nothing is collected from them then.
  bool collect(std::string_view material, int depth = 0) {
    const std::size_t before = found_.size();
    ByteReader reader(material);
    // An entry's metadata holds a source's material, and that holds texts.
    constexpr int kDeepest = 3;
    bool sound = depth < kDeepest && material.starts_with(static_cast<char>(KeyField::Type::kKind));
    while (sound && !reader.empty()) {
      sound = field(reader, depth);
    }
    if (!sound) {
      found_.resize(before);
    }
    return sound;
  }

  std::vector<std::string_view> take() && { return std::move(found_); }

 private:
  bool field(ByteReader& reader, int depth) {
    const auto type = reader.integer<char>();
    const auto name_size = reader.integer<std::uint32_t>();
    const auto name = name_size ? reader.bytes(*name_size) : std::nullopt;
    const auto size = name ? reader.integer<std::uint64_t>() : std::nullopt;
    const auto value = size ? reader.bytes(*size) : std::nullopt;
    if (!value) {
      return false;
    }
    switch (static_cast<KeyField::Type>(*type)) {
      case KeyField::Type::kText:
        text(*value, depth);
        return true;
      case KeyField::Type::kList:
        return list(*value, depth);
      case KeyField::Type::kKind:
      case KeyField::Type::kNumber:
        return true;
    }
    return false;
  }

  void text(std::string_view value, int depth) {
    if (value.size() >= kLeastPieceBytes && !collect(value, depth + 1)) {
      found_.push_back(value);
    }
  }

  bool list(std::string_view value, int depth) {
    ByteReader reader(value);
    bool sound = reader.integer<std::uint64_t>().has_value();
    while (sound && !reader.empty()) {
      const auto size = reader.integer<std::uint64_t>();
      const auto item = size ? reader.bytes(*size) : std::nullopt;
      sound = item.has_value();
      if (sound) {
        text(*item, depth);
      }
    }
    return sound;
  }

  std::vector<std::string_view> found_;
};

}  // namespace

Result<std::vector<std::string_view>> cut_entry(std::string_view file) {
  const auto parts = split_entry(file);
  if (!parts) {
    return tl::unexpected(parts.error());
  }
  LongValues values;
  values.collect(parts->metadata);
  std::vector<std::string_view> pieces;
  std::size_t done = 0;
  const auto piece_to = [&](std::size_t end) {
    if (end > done) {
      pieces.push_back(file.substr(done, end - done));
      done = end;
    }
  };
  piece_to(parts->image.size());
  for (const std::string_view value : std::move(values).take()) {
    const auto begin = static_cast<std::size_t>(value.data() - file.data());
    piece_to(begin);
    piece_to(begin + value.size());
  }
  piece_to(file.size());
  return pieces;
}

}  // namespace kiln::cache
