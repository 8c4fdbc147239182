#include <algorithm>
#include <numeric>
#include <utility>

#include <kiln/op.hpp>

namespace kiln {

Dim Dim::leading(std::string symbol_name) {
  Dim dim(0);
  dim.kind = Kind::kLeading;
  dim.symbol = std::move(symbol_name);
  return dim;
}

Dim Dim::derived(std::string expression, std::function<std::int64_t(const Problem&)> function) {
  Dim dim(0);
  dim.kind = Kind::kDerived;
  dim.symbol = std::move(expression);
  dim.derive = std::move(function);
  return dim;
}

std::string Dim::text() const {
  switch (kind) {
    case Kind::kFixed:
      return std::to_string(value);
    case Kind::kLeading:
      return symbol + "...";
    case Kind::kSymbol:
    case Kind::kDerived:
      break;
  }
  return symbol;
}

TraitSpec TraitSpec::integers(std::string name, std::string summary, std::int64_t first,
                              std::int64_t last) {
  TraitSpec spec{std::move(name), std::move(summary), Kind::kInteger, {}, {}};
  for (std::int64_t value = first; value <= last; ++value) {
    spec.domain.push_back(value);
  }
  return spec;
}

TraitSpec TraitSpec::boolean(std::string name, std::string summary) {
  return {std::move(name), std::move(summary), Kind::kBool, {0, 1}, {}};
}

TraitSpec TraitSpec::choice(std::string name, std::string summary,
                            std::vector<std::string> labels) {
  TraitSpec spec{std::move(name), std::move(summary), Kind::kChoice, {}, std::move(labels)};
  spec.domain.resize(spec.labels.size());
  std::iota(spec.domain.begin(), spec.domain.end(), 0);
  return spec;
}

std::string TraitSpec::spell(std::int64_t value) const {
  if (kind == Kind::kBool) {
    return value != 0 ? "true" : "false";
  }
  if (kind == Kind::kChoice && value >= 0 && static_cast<std::size_t>(value) < labels.size()) {
    return labels[static_cast<std::size_t>(value)];
  }
  return std::to_string(value);
}

Traits::Traits(const std::vector<TraitSpec>& specs) noexcept : specs_(&specs) {
  for (std::size_t i = 0; i < specs.size() && i < kMaxTraits; ++i) {
    values_[i] = specs[i].domain.empty() ? 0 : specs[i].domain.front();
  }
}

namespace {

template <class Range, class Match>
std::size_t index_of(const Range& range, std::size_t limit, Match match) noexcept {
  const auto found = std::find_if(range.begin(), range.end(), match);
  const auto index = static_cast<std::size_t>(found - range.begin());
  return found == range.end() || index >= limit ? limit : index;
}

}  // namespace

std::int64_t Traits::operator[](std::string_view name) const noexcept {
  if (specs_ == nullptr) {
    return 0;
  }
  const std::size_t i =
      index_of(*specs_, kMaxTraits, [&](const TraitSpec& spec) { return spec.name == name; });
  return i == kMaxTraits ? 0 : values_[i];
}

Traits& Traits::set(std::string_view name, std::int64_t value) noexcept {
  if (specs_ != nullptr) {
    const std::size_t i =
        index_of(*specs_, kMaxTraits, [&](const TraitSpec& spec) { return spec.name == name; });
    if (i != kMaxTraits) {
      values_[i] = value;
    }
  }
  return *this;
}

std::int64_t Problem::dim(std::string_view symbol) const noexcept {
  const std::size_t i = index_of(names_->symbols, kMaxSymbols,
                                 [&](const std::string& name) { return name == symbol; });
  return i == kMaxSymbols ? 0 : dims_[i];
}

namespace {

std::uint8_t code_of(const Problem& problem, std::string_view arg) noexcept {
  const std::size_t i = index_of(problem.names().args, Problem::kMaxArgs,
                                 [&](const std::string& name) { return name == arg; });
  return i == Problem::kMaxArgs ? std::uint8_t{0} : problem.arg_code(i);
}

}  // namespace

DType Problem::dtype(std::string_view arg) const noexcept {
  const std::uint8_t code = code_of(*this, arg);
  return code == 0 ? DType{} : static_cast<DType>(code - 1);
}

bool Problem::present(std::string_view arg) const noexcept {
  return code_of(*this, arg) != 0;
}

void Problem::set_arg(std::size_t arg, DType dtype) noexcept {
  args_[arg] = static_cast<std::uint8_t>(1 + static_cast<std::uint8_t>(dtype));
}

std::int64_t Scalars::integer(std::string_view arg, std::int64_t absent) const noexcept {
  const std::size_t i = index_of(names_->args, Problem::kMaxArgs,
                                 [&](const std::string& name) { return name == arg; });
  return i != Problem::kMaxArgs && args_[i].kind() == Arg::Kind::kInteger ? args_[i].integer()
                                                                          : absent;
}

Param Param::data(std::string arg) {
  return {Source::kData, std::move(arg)};
}

Param Param::stride(std::string arg, int axis, ScalarType type) {
  return {Source::kStride, std::move(arg), axis, type};
}

Param Param::dim(std::string symbol, ScalarType type) {
  return {Source::kDim, std::move(symbol), 0, type};
}

Param Param::scalar(std::string arg) {
  return {Source::kScalar, std::move(arg)};
}

Param Param::computed(std::string name, std::function<std::int64_t(const Problem&)> compute,
                      ScalarType type) {
  return {Source::kComputed, std::move(name), 0, type, std::move(compute)};
}

Param Param::workspace() {
  return {Source::kWorkspace, {}};
}

Param Param::constants_ready() {
  return {Source::kConstantsReady, {}};
}

}  // namespace kiln
