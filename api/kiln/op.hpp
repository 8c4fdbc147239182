#pragma once

/// \file
/// An op described as one readable value. Built-in ops and an engine's own ops use the same type.
///
/// Everything in an Op can be evaluated without a GPU: the functions it holds must be pure (same
/// input, same output, no state), must not throw, and may be called from any thread at any time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/target.hpp>
#include <kiln/tensor.hpp>

namespace kiln {

// ---------------------------------------------------------------------------------------------
// Arguments

class Problem;

/// One axis of a tensor's shape: a fixed extent, a symbol that every use in the op must agree on,
/// or an extent that follows from the symbols. The first may also stand for several axes.
struct Dim {
  enum class Kind : std::uint8_t { kFixed, kSymbol, kLeading, kDerived };

  Dim(const char* symbol_name) : kind(Kind::kSymbol), symbol(symbol_name) {}
  Dim(std::int64_t extent) : value(extent) {}
  Dim(int extent) : value(extent) {}

  /// Any number of leading axes, also none; their product is the symbol's value. Only as the first
  /// Dim of a contiguous tensor.
  static Dim leading(std::string symbol_name);
  /// An extent worked out from the symbols, which other axes must give; `expression` says how, for
  /// example "4*k". No axis gives a symbol its value through a derived extent.
  static Dim derived(std::string expression, std::function<std::int64_t(const Problem&)> function);

  /// "512", "m", "m...", "4*k".
  std::string text() const;

  Kind kind = Kind::kFixed;
  std::string symbol{};    ///< Of kSymbol and kLeading; the expression of kDerived.
  std::int64_t value = 0;  ///< Of kFixed.
  std::function<std::int64_t(const Problem&)> derive{};  ///< Of kDerived.
};

enum class Layout : std::uint8_t {
  kContiguous,  ///< Row-major without gaps.
  kRowStrided,  ///< Innermost stride 1, the outer strides free (not negative; rows that are written
                ///< may not overlap).
};

enum class Access : std::uint8_t { kRead, kWrite, kReadWrite /**< in place */ };

enum class ScalarType : std::uint8_t { kI32, kI64, kF32, kBool };

/// One argument. A tensor when `dtypes` is not empty, else a scalar of `scalar` type.
struct ArgSpec {
  std::string name;
  std::string summary{};  ///< One line: meaning and units.

  // Tensors.
  std::vector<DType> dtypes{};  ///< Allowed element types.
  std::vector<Dim> shape{};
  Layout layout = Layout::kContiguous;
  int alignment = 16;  ///< Bytes; holds for the base pointer and for the start of each row.
  Access access = Access::kRead;
  /// Weights and tables: no kernel of the same stream wrote them since the last full dependency, so
  /// they may be read before the PDL wait (see LaunchOptions::constants_ready).
  bool constant = false;
  bool optional = false;
  /// May also lie in host memory that the device can address (pinned or mapped, DLPack's CUDA host
  /// device); the address is then the device's.
  bool host_memory = false;

  // Scalars.
  ScalarType scalar = ScalarType::kI64;

  bool is_tensor() const noexcept { return !dtypes.empty(); }
};

// ---------------------------------------------------------------------------------------------
// Compile-time traits

/// A compile-time parameter of the op's kernels with its closed domain.
struct TraitSpec {
  enum class Kind : std::uint8_t { kInteger, kBool, kChoice };

  std::string name;  ///< As in the instantiation pattern, for example "M_SPLIT".
  std::string summary;
  Kind kind = Kind::kInteger;
  std::vector<std::int64_t> domain{};  ///< Integers; {0, 1}; or the indices of `labels`.
  std::vector<std::string> labels{};   ///< Choices only: their spelling in C++ and in listings.

  static TraitSpec integers(std::string name, std::string summary, std::int64_t first,
                            std::int64_t last);
  static TraitSpec boolean(std::string name, std::string summary);
  static TraitSpec choice(std::string name, std::string summary, std::vector<std::string> labels);

  /// "4", "true", "peer".
  std::string spell(std::int64_t value) const;
};

/// The name of the trait that the engine itself sets: true when the launch uses programmatic
/// dependent launch. An op without it is never launched with the PDL attribute.
inline constexpr std::string_view kPdlTrait = "PDL";

/// A value for each trait of an op, in the op's order.
class Traits {
 public:
  static constexpr std::size_t kMaxTraits = 8;

  Traits() noexcept = default;
  /// First value of each domain. Keeps a reference to `specs`, which must outlive it.
  explicit Traits(const std::vector<TraitSpec>& specs) noexcept;

  std::int64_t operator[](
      std::string_view name) const noexcept;  ///< 0 when there is no such trait.
  Traits& set(std::string_view name, std::int64_t value) noexcept;
  std::int64_t at(std::size_t index) const noexcept { return values_[index]; }
  /// The op's traits; null for a Traits made from nothing.
  const std::vector<TraitSpec>* specs() const noexcept { return specs_; }
  bool operator==(const Traits& other) const noexcept { return values_ == other.values_; }

 private:
  const std::vector<TraitSpec>* specs_ = nullptr;  // The op's; outlives every Traits made for it.
  std::array<std::int64_t, kMaxTraits> values_{};
};

// ---------------------------------------------------------------------------------------------
// What a call looks like, without its pointers

/// The symbols, dtypes and presence of a call's arguments, and where it runs. Holds no memory of
/// its own beyond its size, so making one allocates nothing.
class Problem {
 public:
  static constexpr std::size_t kMaxSymbols = 16;
  static constexpr std::size_t kMaxArgs = 32;

  struct Names;  // The op's symbol and argument names; filled in by the registry.

  explicit Problem(const Names& names) noexcept : names_(&names) {}

  std::int64_t dim(std::string_view symbol) const noexcept;  ///< 0 when the op has no such symbol.
  DType dtype(std::string_view arg) const noexcept;          ///< Of a tensor that is present.
  bool present(std::string_view arg) const noexcept;
  const Target& target() const noexcept { return target_; }
  bool pdl() const noexcept { return pdl_; }

  void set_dim(std::size_t symbol, std::int64_t extent) noexcept { dims_[symbol] = extent; }
  void set_arg(std::size_t arg, DType dtype) noexcept;
  void set_scalar(std::size_t arg) noexcept { args_[arg] = kScalarCode; }  ///< It is present.
  void set_absent(std::size_t arg) noexcept { args_[arg] = 0; }
  void set_target(const Target& target) noexcept { target_ = target; }
  void set_pdl(bool pdl) noexcept { pdl_ = pdl; }

  std::int64_t dim_at(std::size_t symbol) const noexcept { return dims_[symbol]; }
  std::uint8_t arg_code(std::size_t arg) const noexcept { return args_[arg]; }
  const Names& names() const noexcept { return *names_; }

 private:
  static constexpr std::uint8_t kScalarCode = 255;

  const Names* names_;
  std::array<std::int64_t, kMaxSymbols> dims_{};
  std::array<std::uint8_t, kMaxArgs> args_{};  // 0 absent, kScalarCode, or 1 + dtype of a tensor.
  Target target_{};
  bool pdl_ = false;
};

struct Problem::Names {
  std::vector<std::string> symbols;
  std::vector<std::string> args;
};

/// The integer scalars of one call. Looks at the call's arguments, which must outlive it.
class Scalars {
 public:
  Scalars(const Problem::Names& names, const Arg* args) noexcept : names_(&names), args_(args) {}

  /// The scalar's value; `absent` when it was left out or is no integer.
  std::int64_t integer(std::string_view arg, std::int64_t absent = 0) const noexcept;

 private:
  const Problem::Names* names_;
  const Arg* args_;
};

// ---------------------------------------------------------------------------------------------
// Kernels

struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
  bool operator==(const Dim3&) const = default;
};

/// How one kernel is launched. A grid with a zero extent launches nothing.
struct Geometry {
  Dim3 grid{};
  Dim3 block{};
  std::uint32_t dynamic_shared_bytes = 0;
  Dim3 cluster{};            ///< {1, 1, 1}: no cluster attribute.
  bool cooperative = false;  ///< The whole grid must be resident at once.
};

/// One parameter of a kernel's signature and what it is filled from, in the signature's order.
struct Param {
  enum class Source : std::uint8_t {
    kData,            ///< A tensor's data pointer (byte_offset added); null when absent.
    kStride,          ///< A tensor's stride along `axis`, in elements.
    kDim,             ///< The value of symbol `name`.
    kScalar,          ///< A scalar argument; 0 when absent.
    kComputed,        ///< What `compute` gives for the problem; worked out once, not per call.
    kWorkspace,       ///< The workspace pointer.
    kConstantsReady,  ///< bool: whether constant arguments may be read before the PDL wait.
  };

  Source source;
  std::string name;
  int axis = 0;
  /// Of kStride, kDim and kComputed; kScalar follows its ArgSpec.
  ScalarType type = ScalarType::kI64;
  std::function<std::int64_t(const Problem&)> compute{};  ///< Of kComputed.

  static Param data(std::string arg);
  static Param stride(std::string arg, int axis, ScalarType type = ScalarType::kI64);
  static Param dim(std::string symbol, ScalarType type = ScalarType::kI64);
  static Param scalar(std::string arg);
  /// `name` says what it is, for messages.
  static Param computed(std::string name, std::function<std::int64_t(const Problem&)> compute,
                        ScalarType type = ScalarType::kI64);
  static Param workspace();
  static Param constants_ready();
};

/// One CUDA source or header, held in memory. `name` is what an #include directive says.
struct SourceFile {
  std::string name;
  std::string text;
  bool operator==(const SourceFile&) const = default;
};

/// One kernel of an op.
struct KernelSpec {
  std::string name;  ///< Unique within the op.
  std::string
      source;  ///< Name of the template file, among the op's own sources or the built-in ones.
  /// The template instantiation's name, with a {TRAIT} for each trait's value, for example
  /// "kiln::n128k512_gemm_bf16<{M_SPLIT}, {PDL}>".
  std::string instantiation;
  std::vector<Param> params;
  std::function<Geometry(const Problem&, const Traits&)> geometry;
};

// ---------------------------------------------------------------------------------------------
// The op

/// Describes an op in full. Kernels are launched in order on one stream.
struct Op {
  std::string name;
  std::string family;   ///< "gemm", "layernorm", ... or the engine's own.
  std::string summary;  ///< One line.
  std::vector<ArgSpec> args;
  std::vector<TraitSpec> traits;
  int min_compute_capability = 90;
  std::vector<KernelSpec> kernels;

  /// Chooses trait values for a problem; PDL is set by the engine afterwards.
  std::function<void(const Problem&, Traits&)> choose;
  /// Which combinations of trait values exist; unset means all of them.
  std::function<bool(const Traits&, const Target&)> exists;
  /// Contract conditions beyond dtypes and shapes: empty, or what is wrong. Enforced by a launch.
  std::function<std::string(const Problem&)> contract;
  /// The same for conditions on scalars, which no Problem holds.
  std::function<std::string(const Problem&, const Scalars&)> scalar_contract;
  /// Policy caps such as MAX_M: empty, or the reason. Only can_use asks; a launch does not.
  std::function<std::string(const Problem&)> policy;
  /// Bytes of workspace for a problem; unset means none. Alignment 256.
  std::function<std::size_t(const Problem&, const Traits&)> workspace;

  /// The op's own CUDA files (see headers_from); empty for built-in ops.
  std::vector<SourceFile> sources;
  /// Extra NVRTC options; they are part of the cache key. Include paths and targets are refused.
  std::vector<std::string> options;
};

/// Reads `entry` (a file name relative to `directory`) and everything it includes with quotes,
/// transitively, into memory. Each quoted include that resolves to a file is rewritten to that
/// file's unique registered name, since NVRTC does not resolve relative includes between in-memory
/// headers. The first element is the entry itself. Throws Error(kIo) for an unreadable or
/// unresolved file. Angle-bracket includes are left alone.
std::vector<SourceFile> headers_from(const std::string& directory, const std::string& entry);

}  // namespace kiln
