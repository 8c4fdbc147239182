#include "tools/host_call.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "reference/bf16.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools {
namespace {

// Large tensors repeat a block of this many drawn values. It is prime, so that no two rows of a
// usual length are alike.
constexpr std::size_t kDrawn = 1'048'573;
constexpr double kGiB = 1024.0 * 1024 * 1024;
constexpr double kMostBytes = 32 * kGiB;  // Of one tensor.

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

template <class T, class Draw>
void repeat_drawn(std::span<T> values, const Draw& draw) {
  const std::size_t drawn = std::min(values.size(), kDrawn);
  std::generate_n(values.begin(), drawn, draw);
  for (std::size_t i = drawn; i < values.size(); i += drawn) {
    std::copy_n(values.begin(), std::min(drawn, values.size() - i),
                values.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// In floating point, where no extent overflows.
void require_sane_size(const Op& op, const HostTensor& tensor) {
  double bytes = static_cast<double>(dtype_size(tensor.dtype));
  for (const std::int64_t extent : tensor.shape) {
    bytes *= static_cast<double>(extent);
  }
  if (bytes > kMostBytes) {
    refuse(fmt::format("'{}' of '{}' would take {:.0f} GiB here, more than {:.0f}",
                       tensor.arg->name, op.name, bytes / kGiB, kMostBytes / kGiB));
  }
}

template <class Map>
std::string names(const Map& map) {
  std::string out;
  for (const auto& [name, value] : map) {
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

}  // namespace

std::size_t HostTensor::elements() const noexcept {
  std::size_t product = 1;
  for (const std::int64_t extent : shape) {
    product *= static_cast<std::size_t>(extent);
  }
  return product;
}

std::size_t HostTensor::bytes() const noexcept {
  return elements() * static_cast<std::size_t>(dtype_size(dtype));
}

void HostTensor::require_size(std::size_t element_bytes) const {
  if (element_bytes != static_cast<std::size_t>(dtype_size(dtype))) {
    throw Error(ErrorCode::kInternal,
                fmt::format("'{}' is {}, and was read in elements of {} bytes", arg->name,
                            dtype_name(dtype), element_bytes));
  }
}

HostCall::HostCall(const registry::BoundOp& op, const OpCase& op_case, const CallRequest& request)
    : op_(&op),
      traffic_(op_case.traffic),
      with_(request.with.empty() ? op_case.with : request.with),
      scalars_(op_case.scalars) {
  choose_args(request);
  choose_dims(op_case, request);
  add_tensors(op_case, request);
  work_out_shapes();
  draw(op_case, request.seed);
}

void HostCall::choose_args(const CallRequest& request) {
  for (const std::string& name : request.with) {
    if (std::none_of(op().args.begin(), op().args.end(),
                     [&](const ArgSpec& arg) { return arg.optional && arg.name == name; })) {
      refuse(fmt::format("'{}' has no optional argument '{}'", op().name, name));
    }
  }
}

bool HostCall::has(std::string_view arg) const {
  return std::any_of(op().args.begin(), op().args.end(),
                     [&](const ArgSpec& one) { return one.name == arg && has(one); });
}

void HostCall::choose_dims(const OpCase& op_case, const CallRequest& request) {
  for (const std::string& symbol : op_->names.symbols) {
    const auto asked = request.dims.find(symbol);
    const auto known = op_case.dims.find(symbol);
    if (asked == request.dims.end() && known == op_case.dims.end()) {
      refuse(fmt::format("'{}' needs a value for '{}'", op().name, symbol));
    }
    dims_[symbol] = asked != request.dims.end() ? asked->second : known->second;
  }
  for (const auto& [symbol, value] : request.dims) {
    if (!dims_.contains(symbol)) {
      refuse(fmt::format("the shapes of '{}' have no symbol '{}'; there are: {}", op().name, symbol,
                         names(dims_)));
    }
    if (value < 0) {
      refuse(fmt::format("'{}' of '{}' cannot be {}", symbol, op().name, value));
    }
  }
}

void HostCall::add_tensors(const OpCase& op_case, const CallRequest& request) {
  for (const ArgSpec& arg : op().args) {
    if (!arg.is_tensor() || !has(arg)) {
      continue;
    }
    HostTensor& tensor = tensors_.emplace_back();
    tensor.arg = &arg;
    const auto asked = request.dtypes.find(arg.name);
    const auto known = op_case.dtypes.find(arg.name);
    tensor.dtype = asked != request.dtypes.end()   ? asked->second
                   : known != op_case.dtypes.end() ? known->second
                                                   : arg.dtypes.front();
  }
  for (const auto& [name, dtype] : request.dtypes) {
    const ArgSpec& arg = *tensor(name).arg;
    if (std::find(arg.dtypes.begin(), arg.dtypes.end(), dtype) == arg.dtypes.end()) {
      std::string allowed;
      for (const DType one : arg.dtypes) {
        allowed += fmt::format("{}{}", allowed.empty() ? "" : ", ", dtype_name(one));
      }
      refuse(fmt::format("'{}' of '{}' cannot be {}; it may be: {}", name, op().name,
                         dtype_name(dtype), allowed));
    }
  }
}

void HostCall::work_out_shapes() {
  Problem problem(op_->names);
  for (std::size_t i = 0; i < op_->names.symbols.size(); ++i) {
    problem.set_dim(i, dims_.at(op_->names.symbols[i]));
  }
  for (std::size_t i = 0; i < op().args.size(); ++i) {
    if (op().args[i].is_tensor() && has(op().args[i])) {
      problem.set_arg(i, tensor(op().args[i].name).dtype);
    }
  }
  for (HostTensor& tensor : tensors_) {
    for (const Dim& dim : tensor.arg->shape) {
      tensor.shape.push_back(dim.kind == Dim::Kind::kFixed     ? dim.value
                             : dim.kind == Dim::Kind::kDerived ? dim.derive(problem)
                                                               : dims_.at(dim.symbol));
    }
    require_sane_size(op(), tensor);
  }
}

void HostCall::draw(const OpCase& op_case, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  for (HostTensor& tensor : tensors_) {
    if (tensor.is_input()) {
      tensor.data.resize(tensor.bytes());
      const auto fill = op_case.fills.find(tensor.arg->name);
      if (fill != op_case.fills.end()) {
        fill->second(tensor, generator, *this);
      } else {
        fill_random(tensor, generator);
      }
    }
  }
}

std::int64_t HostCall::dim(std::string_view symbol) const {
  return dims_.at(std::string(symbol));
}

double HostCall::scalar(std::string_view arg) const {
  const auto found = scalars_.find(std::string(arg));
  if (found == scalars_.end()) {
    throw Error(ErrorCode::kInternal,
                fmt::format("the case of '{}' gives no value for '{}'", op().name, arg));
  }
  return found->second;
}

const HostTensor& HostCall::tensor(std::string_view arg) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const HostTensor& one) { return one.arg->name == arg; });
  if (found == tensors_.end()) {
    std::string all;
    for (const HostTensor& one : tensors_) {
      all += (all.empty() ? "" : ", ") + one.arg->name;
    }
    refuse(fmt::format("'{}' has no tensor '{}'; there are: {}", op().name, arg, all));
  }
  return *found;
}

void HostCall::store_bytes(std::string_view arg, std::span<const std::byte> bytes) {
  const HostTensor& found = tensor(arg);
  if (bytes.size() != found.bytes()) {
    throw Error(ErrorCode::kInternal,
                fmt::format("the reference of '{}' gave {} bytes for '{}', which has {}", op().name,
                            bytes.size(), arg, found.bytes()));
  }
  tensors_[static_cast<std::size_t>(&found - tensors_.data())].data.assign(bytes.begin(),
                                                                           bytes.end());
}

std::size_t HostCall::traffic() const {
  if (traffic_) {
    return traffic_(*this);
  }
  std::size_t total = 0;
  for (const HostTensor& tensor : tensors_) {
    total += tensor.bytes() * (tensor.arg->access == Access::kReadWrite ? 2 : 1);
  }
  return total;
}

void fill_random(HostTensor& tensor, std::mt19937_64& generator) {
  std::normal_distribution<float> normal(0.0F, 1.0F);
  switch (tensor.dtype) {
    case DType::kBF16:
      repeat_drawn(tensor.as<std::uint16_t>(),
                   [&] { return reference::to_bf16(normal(generator)); });
      return;
    case DType::kF32:
      repeat_drawn(tensor.as<float>(), [&] { return normal(generator); });
      return;
    default:
      refuse(fmt::format("the case of an op with an input '{}' of {} must say what is valid there",
                         tensor.arg->name, dtype_name(tensor.dtype)));
  }
}

}  // namespace kiln::tools
