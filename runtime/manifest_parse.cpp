#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/manifest.hpp"
#include "trait_registry/target.hpp"

namespace kiln::runtime {
namespace {

constexpr std::size_t kMostVariants = std::size_t{1} << 20;
constexpr std::size_t kMostTraits = 64;
constexpr std::size_t kLongestText = 1024;  // Names and values of ops are far shorter.

std::string shown(std::string_view text) {
  constexpr std::size_t kMostShown = 40;
  std::string out(text.substr(0, kMostShown));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

/// Takes a manifest piece by piece, so that what is none costs no memory and a field that is given
/// twice is seen. The public functions are what nlohmann::json::sax_parse calls; each says whether
/// to go on.
class Reader {
 public:
  using Json = nlohmann::json;

  explicit Reader(std::string_view where) : where_(where) {}

  Result<Manifest> result() {
    return problem_ ? fail(ErrorCode::kInvalidArgument, *problem_)
                    : Result<Manifest>(std::move(manifest_));
  }

  bool null() { return unexpected("null"); }
  bool boolean(bool value) { return unexpected(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) { return unexpected(shown(text)); }
  bool binary(Json::binary_t&) { return unexpected("binary data"); }

  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::kFile || field_ != "kiln_manifest") {
      return unexpected(std::to_string(value));
    }
    return value == 1 ||
           bad(fmt::format("is a manifest of version {}; this Kiln reads version 1", value));
  }

  bool string(const std::string& value) {
    if (value.size() > kLongestText) {
      return bad(fmt::format("a text of {} bytes is longer than {}", value.size(), kLongestText));
    }
    if (place_ == Place::kTraits) {
      entry_.traits[field_] = value;
      return true;
    }
    if (place_ != Place::kVariant || field_ == "traits") {
      return unexpected(fmt::format("the text \"{}\"", shown(value)));
    }
    if (field_ == "target") {
      const Result<Target> target = registry::parse(value);
      entry_.target = target.value_or(Target());
      return target || bad(target.error().message);
    }
    (field_ == "op" ? entry_.op : entry_.kernel) = value;
    return true;
  }

  bool key(const std::string& name) {
    field_ = name;
    switch (place_) {
      case Place::kFile:
        return known(name, file_fields_, {"kiln_manifest", "variants"});
      case Place::kVariant:
        return known(name, variant_fields_, {"op", "kernel", "traits", "target"});
      default:
        break;
    }
    if (entry_.traits.contains(name)) {
      return bad(fmt::format("the trait \"{}\" is given twice", shown(name)));
    }
    return (name.size() <= kLongestText && entry_.traits.size() < kMostTraits) ||
           bad("has too many traits, or one whose name is too long");
  }

  bool start_object(std::size_t) {
    switch (place_) {
      case Place::kOutside:
        place_ = Place::kFile;
        return true;
      case Place::kList:
        place_ = Place::kVariant;
        entry_ = {};
        variant_fields_.clear();
        return ++variants_ <= kMostVariants ||
               bad(fmt::format("holds more than {} variants", kMostVariants));
      case Place::kVariant:
        if (field_ == "traits") {
          place_ = Place::kTraits;
          return true;
        }
        break;
      default:
        break;
    }
    return unexpected("an object");
  }

  bool end_object() {
    switch (place_) {
      case Place::kTraits:
        place_ = Place::kVariant;
        return true;
      case Place::kVariant:
        if (!complete(variant_fields_, {"op", "kernel", "traits", "target"})) {
          return false;
        }
        manifest_.variants.insert(std::move(entry_));
        place_ = Place::kList;
        return true;
      default:
        return complete(file_fields_, {"kiln_manifest", "variants"});
    }
  }

  bool start_array(std::size_t) {
    if (place_ != Place::kFile || field_ != "variants") {
      return unexpected("a list");
    }
    place_ = Place::kList;
    return true;
  }

  bool end_array() {
    place_ = Place::kFile;
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token, const Json::exception&) {
    place_ = Place::kOutside;
    return bad(fmt::format("is no complete JSON: byte {}, after \"{}\"", position, shown(token)));
  }

 private:
  /// What the next piece lies in.
  enum class Place { kOutside, kFile, kList, kVariant, kTraits };

  bool bad(const std::string& what) {
    const bool inside = place_ == Place::kVariant || place_ == Place::kTraits;
    problem_ = fmt::format("{}{}: {}", where_,
                           inside ? fmt::format(", variant {}", variants_) : std::string(), what);
    return false;
  }

  bool unexpected(std::string_view found) {
    std::string expected = "an object with \"kiln_manifest\" and \"variants\"";
    if (place_ == Place::kFile) {
      expected = field_ == "variants" ? "a list as \"variants\"" : "1 as \"kiln_manifest\"";
    } else if (place_ == Place::kList) {
      expected = "an object for each of \"variants\"";
    } else if (place_ != Place::kOutside) {
      const bool object = place_ == Place::kVariant && field_ == "traits";
      expected = fmt::format("{} as \"{}\"", object ? "an object" : "a text", shown(field_));
    }
    return bad(fmt::format("expected {}, found {}", expected, found));
  }

  bool known(const std::string& name, std::set<std::string>& seen,
             std::initializer_list<std::string_view> fields) {
    if (std::find(fields.begin(), fields.end(), name) == fields.end()) {
      return bad(fmt::format("the field \"{}\" is unknown", shown(name)));
    }
    return seen.insert(name).second || bad(fmt::format("\"{}\" is given twice", name));
  }

  bool complete(const std::set<std::string>& seen, std::initializer_list<const char*> fields) {
    for (const char* field : fields) {
      if (!seen.contains(field)) {
        return bad(fmt::format("\"{}\" is missing", field));
      }
    }
    return true;
  }

  std::string where_;
  std::optional<std::string> problem_;
  Manifest manifest_;
  std::size_t variants_ = 0;  // Begun so far.
  Place place_ = Place::kOutside;
  std::string field_;
  std::set<std::string> file_fields_;
  std::set<std::string> variant_fields_;
  ManifestEntry entry_;
};

}  // namespace

Result<Manifest> Manifest::parse(std::string_view json, std::string_view where) {
  if (json.size() > kMostBytes) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: is larger than {} MiB", where, kMostBytes >> 20));
  }
  Reader reader(where);
  nlohmann::json::sax_parse(json, &reader);
  return reader.result();
}

}  // namespace kiln::runtime
