#pragma once

/// \file
/// One call of an op on the host: shapes worked out from the symbols, random inputs, and room for
/// the outputs of a CPU reference.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/error.hpp>
#include <kiln/op.hpp>

#include "trait_registry/registry.hpp"

namespace kiln::tools {

struct OpCase;

/// A contiguous tensor on the host, as raw bytes.
struct HostTensor {
  const ArgSpec* arg = nullptr;
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;  ///< Empty for a pure output until a reference fills it.

  std::size_t elements() const noexcept;
  std::size_t bytes() const noexcept;
  bool is_input() const noexcept { return arg->access != Access::kWrite; }
  bool is_output() const noexcept { return arg->access != Access::kRead; }

  /// The elements as values of a type of the dtype's size.
  template <class T>
  std::span<const T> as() const {
    require_size(sizeof(T));
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> as() {
    require_size(sizeof(T));
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }

 private:
  void require_size(std::size_t element_bytes) const;  ///< Throws Error(kInternal).
};

/// What is asked of a call; what it leaves out the case decides.
struct CallRequest {
  std::map<std::string, std::int64_t> dims;
  std::map<std::string, DType> dtypes;  ///< By argument.
  std::uint64_t seed = 1;
  std::set<std::string> with{};  ///< Optional arguments that the call has.
};

/// Inputs are filled when it is made.
class HostCall {
 public:
  /// Throws Error(kInvalidArgument) when the request names a symbol or argument that the op does
  /// not have (of `with`: not as an optional one), or a symbol is left without a value. `op` must
  /// outlive the call.
  HostCall(const registry::BoundOp& op, const OpCase& op_case, const CallRequest& request);

  const Op& op() const noexcept { return op_->op; }
  std::int64_t dim(std::string_view symbol) const;
  DType dtype(std::string_view arg) const { return tensor(arg).dtype; }
  double scalar(std::string_view arg) const;

  /// Whether the call has this argument.
  bool has(const ArgSpec& arg) const { return !arg.optional || with_.contains(arg.name); }
  bool has(std::string_view arg) const;
  /// In the order of the op's arguments; scalars and absent ones left out.
  std::span<const HostTensor> tensors() const noexcept { return tensors_; }
  const HostTensor& tensor(std::string_view arg) const;
  /// The values of every symbol and of every tensor's dtype, as they were chosen.
  const std::map<std::string, std::int64_t>& dims() const noexcept { return dims_; }

  template <class T>
  const T* data(std::string_view arg) const {
    return tensor(arg).as<T>().data();
  }
  /// Gives an output what a reference computed. Throws Error(kInternal) when the sizes differ.
  template <class T>
  void store(std::string_view arg, const std::vector<T>& values) {
    store_bytes(arg, std::as_bytes(std::span(values)));
  }

  /// Bytes that a perfect kernel moves: what the case says, else each input read once, each output
  /// written once.
  std::size_t traffic() const;

 private:
  void choose_args(const CallRequest& request);
  void choose_dims(const OpCase& op_case, const CallRequest& request);
  void add_tensors(const OpCase& op_case, const CallRequest& request);
  void work_out_shapes();
  void draw(const OpCase& op_case, std::uint64_t seed);
  void store_bytes(std::string_view arg, std::span<const std::byte> bytes);

  const registry::BoundOp* op_;
  std::function<std::size_t(const HostCall&)> traffic_;
  std::set<std::string> with_;
  std::map<std::string, std::int64_t> dims_;
  std::map<std::string, double> scalars_;
  std::vector<HostTensor> tensors_;
};

/// Random values of the tensor's dtype: normal around zero for floating point, as activations and
/// weights are. Throws Error(kInvalidArgument) for a dtype of which only the case knows what is
/// valid.
void fill_random(HostTensor& tensor, std::mt19937_64& generator);

}  // namespace kiln::tools
