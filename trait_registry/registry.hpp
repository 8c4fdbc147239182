#pragma once

/// \file
/// The set of registered ops, and what is worked out once per op so that no call has to.

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/op.hpp>

#include "base/result.hpp"

namespace kiln::registry {

/// One axis of a tensor argument.
struct BoundDim {
  Dim::Kind kind = Dim::Kind::kFixed;
  int symbol = -1;          ///< Index into BoundOp::names.symbols; -1 when fixed or derived.
  std::int64_t extent = 0;  ///< The extent when it is fixed.
};

/// One argument, with its names looked up.
struct BoundArg {
  std::vector<BoundDim> shape;
  bool has_leading = false;  ///< The first of `shape` stands for any number of axes.
  bool has_derived = false;
  std::uint32_t dtype_mask = 0;   ///< Bit `1 << dtype` for each allowed DType.
  std::uint32_t i32_strides = 0;  ///< Bit `1 << axis` for each stride some kernel takes as 32 bits.
  bool written = false;           ///< kWrite or kReadWrite.
  // As in its ArgSpec, so that a call need not look there, which is not in the processor's cache.
  bool is_tensor = false;
  bool optional = false;
  bool host_memory = false;
  int alignment = 0;
};

/// One parameter of a kernel, with its names looked up.
struct BoundParam {
  Param::Source source = Param::Source::kData;
  int index = -1;  ///< The argument of kData, kStride and kScalar; the symbol of kDim; else -1.
  int axis = 0;    ///< Of kStride.
  ScalarType type = ScalarType::kI64;  ///< Of kStride, kDim and kScalar; kBool for kConstantsReady.
};

/// A validated op. Its address never changes while its registry lives, and Problem::names and
/// Traits made for it point into it.
struct BoundOp {
  Op op;
  bool builtin = false;
  Problem::Names names;        ///< Symbols in order of first use; arguments in order.
  std::vector<BoundArg> args;  ///< As op.args.
  std::vector<std::vector<BoundParam>> params;  ///< Per kernel, in the signature's order.
  std::uint32_t i32_symbols =
      0;  ///< Bit `1 << symbol` for each symbol some kernel takes as 32 bits.
  bool has_pdl_trait = false;
  /// Every kernel that takes a constant argument's data also takes kConstantsReady. When false, a
  /// call with LaunchOptions::constants_ready = false can only be honoured by not using PDL.
  bool constants_switch = false;
};

/// Ops by name. All members may be called from any thread at any time; nothing is ever removed, and
/// finding one takes no lock.
class Registry {
 public:
  /// With the built-in ops. Each op gets `options` after its own. Throws Error(kInternal) when a
  /// built-in op is malformed.
  explicit Registry(std::vector<std::string> options = {});
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  /// kDuplicateOp when the name is taken; kInvalidArgument, naming the part, when the description
  /// contradicts itself. The registry is unchanged on failure.
  Result<const BoundOp*> add(Op op);

  /// Null where there is none of the name.
  const BoundOp* lookup(std::string_view name) const noexcept;
  /// kUnknownOp, naming near matches.
  Result<const BoundOp*> find(std::string_view name) const;

  /// Every op in order of registration, built-in ones first (by file name).
  std::vector<const BoundOp*> all() const;

 private:
  struct Node {
    BoundOp bound;
    Node* next = nullptr;  // In the bucket; written before the node is published.
  };

  Result<const BoundOp*> insert(Op op, bool builtin);
  Failure unknown(std::string_view name) const;

  const std::vector<std::string> options_;  // NVRTC options of every op.
  // Append-only: a reader that loads a bucket's head sees finished nodes only.
  std::array<std::atomic<Node*>, 64> buckets_{};
  mutable std::mutex mutex_;                  // Guards nodes_ and the order of insertions.
  std::vector<std::unique_ptr<Node>> nodes_;  // In order of registration.
};

/// The built-in ops: one function per file of trait_registry/ops, listed by the build.
std::vector<Op> builtin_ops();

}  // namespace kiln::registry
