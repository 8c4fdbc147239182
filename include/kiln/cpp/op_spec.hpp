#pragma once

/// \file
/// An op of the caller's own, described as one value: what it takes, its kernels, their source.
///
///   kiln::OpSpec op;
///   op.name = "my_axpy";
///   op.args = {kiln::ArgSpec::scalar("a", kiln::ScalarType::kF32),
///              kiln::ArgSpec::tensor("x", "f32", "n"),
///              kiln::ArgSpec::tensor("y", "f32", "n", kiln::Access::kReadWrite)};
///   kiln::KernelSpec kernel;
///   ...
///   engine.register_op(op);
///
/// Extents, geometry and parameters that depend on a call's shapes are expressions over the op's
/// symbols: integers, + - * / % (whole numbers, rounded towards zero), parentheses, min(a, b),
/// max(a, b), ceil_div(a, b). A call for which one divides by zero or leaves 64 bits, or gives a
/// geometry that no device takes, is outside the op's contract.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <kiln/cpp/options.hpp>
#include <kiln/cpp/version.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

enum class Access : std::int32_t {
  kRead = KILN_READ,
  kWrite = KILN_WRITE,
  kReadWrite = KILN_READ_WRITE,  ///< In place.
};

enum class ScalarType : std::int32_t {
  kI32 = KILN_TYPE_I32,
  kI64 = KILN_TYPE_I64,
  kF32 = KILN_TYPE_F32,
  kBool = KILN_TYPE_BOOL,
};

/// One argument of an op: a tensor when `dtypes` is not empty, else a scalar.
struct ArgSpec {
  std::string name;
  std::string summary;  ///< One line: meaning and units.
  /// Allowed element types, with commas: "bf16, f32"; see kiln_arg_spec. A kernel is not told which
  /// of several came.
  std::string dtypes;
  /// Axes, with commas: "m, 512". Each is an extent; a symbol, on which every use in the op must
  /// agree; as the first one also "m...", any number of axes whose product is m; or an expression
  /// over symbols that other axes give.
  std::string shape;
  ScalarType type = ScalarType::kI64;  ///< Of a scalar.
  Access access = Access::kRead;
  /// A weight or table: no kernel of the same stream wrote it since the last full dependency, so it
  /// may be read before the PDL wait. See LaunchOptions::constants_ready.
  bool constant = false;
  bool optional = false;     ///< May be left out.
  bool row_strided = false;  ///< Innermost stride 1, outer ones free. Otherwise contiguous.
  bool host_memory = false;  ///< May also lie in host memory that the device can address.
  int alignment = 16;        ///< Bytes, of the data and of each row.

  static ArgSpec tensor(std::string name, std::string dtypes, std::string shape,
                        Access access = Access::kRead) {
    ArgSpec arg;
    arg.name = std::move(name);
    arg.dtypes = std::move(dtypes);
    arg.shape = std::move(shape);
    arg.access = access;
    return arg;
  }
  static ArgSpec scalar(std::string name, ScalarType type) {
    ArgSpec arg;
    arg.name = std::move(name);
    arg.type = type;
    return arg;
  }
};

/// One parameter of a kernel's signature and what it is filled from, in the signature's order.
struct Param {
  std::int32_t source = 0;             ///< KILN_PARAM_...
  std::string name;                    ///< The argument, or the expression.
  int axis = 0;                        ///< Of a stride.
  ScalarType type = ScalarType::kI64;  ///< kI32 or kI64, of a stride or an expression.

  /// A tensor's data pointer; null when it is absent.
  static Param data(std::string arg) { return {KILN_PARAM_DATA, std::move(arg)}; }
  /// A tensor's stride along `axis`, in elements.
  static Param stride(std::string arg, int axis, ScalarType type = ScalarType::kI64) {
    return {KILN_PARAM_STRIDE, std::move(arg), axis, type};
  }
  /// A scalar argument, in its own type; 0 when it is absent.
  static Param scalar(std::string arg) { return {KILN_PARAM_SCALAR, std::move(arg)}; }
  /// A symbol, or an expression over symbols.
  static Param expression(std::string text, ScalarType type = ScalarType::kI64) {
    return {KILN_PARAM_EXPRESSION, std::move(text), 0, type};
  }
  /// The workspace's pointer.
  static Param workspace() { return {KILN_PARAM_WORKSPACE, {}}; }
  /// bool: constant arguments may be read before the PDL wait.
  static Param constants_ready() { return {KILN_PARAM_CONSTANTS_READY, {}}; }

  Param(std::int32_t from, std::string what, int along = 0, ScalarType as = ScalarType::kI64)
      : source(from), name(std::move(what)), axis(along), type(as) {}
};

/// Three extents, each an expression; what is empty is 1.
struct Extents {
  std::string x{};
  std::string y{};
  std::string z{};
};

/// One kernel; an op's kernels are launched in order on one stream.
struct KernelSpec {
  std::string name;    ///< Unique within the op.
  std::string source;  ///< Name of one of the op's sources.
  /// The template instantiation's name, "axpy<256>". With OpSpec::pdl it may hold {PDL}, which
  /// becomes true or false.
  std::string instantiation;
  std::vector<Param> params;
  Extents grid;  ///< One with a 0 launches nothing.
  Extents block;
  Extents cluster;
  std::string dynamic_shared_bytes;  ///< An expression; empty: 0.
  bool cooperative = false;          ///< The whole grid must be resident at once.
};

/// CUDA source in memory. `name` is what an #include directive says.
struct SourceFile {
  std::string name;
  std::string text;  ///< Empty: read from OpSpec::source_directory.
};

/// Copied by Engine::register_op.
struct OpSpec {
  std::string name;
  std::string family = "own";
  std::string summary;  ///< One line.
  std::vector<ArgSpec> args;
  std::vector<KernelSpec> kernels;
  std::vector<SourceFile> sources;
  /// Folder of the sources that have no text; they are read once, with all that they include in
  /// quotes. Empty: every source has its text.
  std::string source_directory;
  std::vector<std::string> options;  ///< Extra NVRTC options; part of the cache key.
  std::string workspace_bytes;       ///< An expression; empty: no workspace.
  int min_compute_capability = 90;   ///< 90 for 9.0.
  bool pdl = false;                  ///< The kernels hold the PDL wait where their {PDL} is true.
};

namespace detail {

/// A description as C takes it; refers to the one that it was made from.
class OpSpecForC {
 public:
  explicit OpSpecForC(const OpSpec& op) : options_(c_texts(op.options)) {
    add_args(op.args);
    add_kernels(op.kernels);
    for (const SourceFile& file : op.sources) {
      sources_.push_back({file.name.c_str(), c_text(file.text)});
    }
    c_.name = op.name.c_str();
    c_.family = c_text(op.family);
    c_.summary = c_text(op.summary);
    c_.args = args_.data();
    c_.arg_count = args_.size();
    c_.kernels = kernels_.data();
    c_.kernel_count = kernels_.size();
    c_.sources = sources_.data();
    c_.source_count = sources_.size();
    c_.source_directory = c_text(op.source_directory);
    c_.options = options_.data();
    c_.option_count = options_.size();
    c_.workspace_bytes = c_text(op.workspace_bytes);
    c_.min_compute_capability = op.min_compute_capability;
    c_.pdl = c_switch(op.pdl);
  }
  OpSpecForC(const OpSpecForC&) = delete;
  OpSpecForC& operator=(const OpSpecForC&) = delete;

  const kiln_op_spec* c() const noexcept { return &c_; }

 private:
  void add_args(const std::vector<ArgSpec>& args) {
    for (const ArgSpec& arg : args) {
      kiln_arg_spec c{};
      c.name = arg.name.c_str();
      c.summary = c_text(arg.summary);
      c.dtypes = c_text(arg.dtypes);
      c.shape = arg.shape.c_str();
      c.scalar_type = static_cast<std::int32_t>(arg.type);
      c.access = static_cast<std::int32_t>(arg.access);
      c.flags = (arg.constant ? KILN_FLAG_CONSTANT : 0) | (arg.optional ? KILN_FLAG_OPTIONAL : 0) |
                (arg.row_strided ? KILN_FLAG_ROW_STRIDED : 0) |
                (arg.host_memory ? KILN_FLAG_HOST_MEMORY : 0);
      c.alignment = arg.alignment;
      args_.push_back(c);
    }
  }
  void add_kernels(const std::vector<KernelSpec>& kernels) {
    params_.reserve(kernels.size());  // Kernels point into it.
    for (const KernelSpec& kernel : kernels) {
      kiln_kernel_spec c{};
      c.name = kernel.name.c_str();
      c.source = kernel.source.c_str();
      c.instantiation = kernel.instantiation.c_str();
      params_.push_back(c_params(kernel.params));
      c.params = params_.back().data();
      c.param_count = params_.back().size();
      set(c.grid, kernel.grid);
      set(c.block, kernel.block);
      set(c.cluster, kernel.cluster);
      c.dynamic_shared_bytes = c_text(kernel.dynamic_shared_bytes);
      c.cooperative = kernel.cooperative ? 1 : 0;
      kernels_.push_back(c);
    }
  }
  static std::vector<kiln_param_spec> c_params(const std::vector<Param>& params) {
    std::vector<kiln_param_spec> all;
    for (const Param& param : params) {
      all.push_back(
          {param.source, param.axis, static_cast<std::int32_t>(param.type), 0, param.name.c_str()});
    }
    return all;
  }
  static void set(const char* (&c)[3], const Extents& extents) noexcept {
    c[0] = c_text(extents.x);
    c[1] = c_text(extents.y);
    c[2] = c_text(extents.z);
  }

  std::vector<kiln_arg_spec> args_;
  std::vector<std::vector<kiln_param_spec>> params_;
  std::vector<kiln_kernel_spec> kernels_;
  std::vector<kiln_source> sources_;
  std::vector<const char*> options_;
  kiln_op_spec c_ = sized<kiln_op_spec>();
};

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
