#include "cache/explain.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace kiln::cache {
namespace {

constexpr std::size_t kLongestShown = 120;
constexpr std::string_view kAbsent = "absent";

std::string shown(const KeyField& field) {
  std::string value = field.type == KeyField::Type::kList
                          ? fmt::format("{}", fmt::join(field.values, " "))
                          : field.values.front();
  const bool is_text_file = value.find('\n') != std::string::npos;
  if (value.size() <= kLongestShown && !is_text_file) {
    return value;
  }
  return fmt::format("{} bytes, XXH3-128 {}", value.size(), digest(value).hex());
}

struct NamedField {
  std::string name;
  std::string value;
};

// A name that comes again, or a file of a name that comes again, is told apart by its number.
Result<std::vector<NamedField>> named_fields(std::string_view material) {
  const auto fields = parse_key(material);
  if (!fields) {
    return tl::unexpected(fields.error());
  }
  std::vector<NamedField> named;
  std::map<std::string, int> seen;
  for (std::size_t i = 0; i < fields->size(); ++i) {
    const KeyField& field = (*fields)[i];
    std::string name = field.name;
    if (i > 0 && (*fields)[i - 1].name == field.name + " name") {
      name += " " + shown((*fields)[i - 1]);
    }
    if (const int count = ++seen[name]; count > 1) {
      name += fmt::format(" ({})", count);
    }
    // The name of a file is told with the file.
    if (i + 1 < fields->size() && field.name == (*fields)[i + 1].name + " name") {
      continue;
    }
    if (field.type == KeyField::Type::kKind) {
      name = "schema of " + field.name;
    }
    named.push_back({std::move(name), field.values.empty() ? std::string() : shown(field)});
  }
  return named;
}

const std::string* find(const std::vector<NamedField>& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const NamedField& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &found->value;
}

}  // namespace

std::vector<KeyDifference> differences(std::string_view asked, std::string_view stored) {
  if (asked == stored) {
    return {};
  }
  const auto wanted = named_fields(asked);
  const auto there = named_fields(stored);
  if (!wanted || !there) {
    const auto& bad = wanted ? there : wanted;
    return {{"key", wanted ? "readable" : bad.error().message,
             there ? "readable" : bad.error().message}};
  }
  std::vector<KeyDifference> out;
  for (const NamedField& field : *wanted) {
    const std::string* other = find(*there, field.name);
    if (other == nullptr || *other != field.value) {
      out.push_back({field.name, field.value, other != nullptr ? *other : std::string(kAbsent)});
    }
  }
  for (const NamedField& field : *there) {
    if (find(*wanted, field.name) == nullptr) {
      out.push_back({field.name, std::string(kAbsent), field.value});
    }
  }
  if (out.empty()) {
    out.push_back({"order of fields", "as this version writes it", "another"});
  }
  return out;
}

Explainer::Explainer(Store& store) {
  for (ListedEntry& listed : store.list()) {
    Known known{std::move(listed), {}, {}};
    if (known.listed.ok) {
      if (auto entry = store.read(known.listed)) {
        known.source = std::string(entry->source.material.text());
        known.toolchain = std::move(entry->toolchain.material);
      }
    }
    known_.push_back(std::move(known));
  }
}

std::optional<Nearest> Explainer::nearest(const SourceKey& source, std::string_view label,
                                          const ToolchainKey* toolchain) const {
  std::optional<Nearest> best;
  std::tuple<bool, std::size_t> best_rank;
  for (const Known& known : known_) {
    Nearest candidate{known.listed, {}};
    if (known.source.empty()) {
      // Its name is all that a bad entry still tells.
      if (known.listed.source != source.digest.hex() || known.listed.target != source.target) {
        continue;
      }
    } else {
      candidate.differences = differences(source.material, known.source);
      if (toolchain != nullptr) {
        auto more = differences(toolchain->material, known.toolchain);
        candidate.differences.insert(candidate.differences.end(), more.begin(), more.end());
      }
    }
    const std::tuple rank(!known.source.empty() && known.listed.label != label,
                          candidate.differences.size());
    if (!best || rank < best_rank) {
      best = std::move(candidate);
      best_rank = rank;
    }
  }
  return best;
}

}  // namespace kiln::cache
