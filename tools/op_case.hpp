#pragma once

/// \file
/// What the command knows of an op beyond its description: how to call it by itself, the shapes at
/// which it is timed, and its CPU reference. One file of tools/cases for each built-in op.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <kiln/op.hpp>
#include <kiln/target.hpp>

#include "tools/host_call.hpp"

namespace kiln::tools {

/// What a reference takes from the device that its result is compared with.
struct ReferenceDevice {
  ComputeCapability capability;
  /// rsqrt.approx.ftz.f32 of each value, a reference::Rsqrt.
  std::function<std::vector<float>(const std::vector<float>&)> rsqrt;
};

/// A shape at which an op is timed.
struct TimedShape {
  std::string text;  ///< As docs/peer_h200.md writes it, where it has the shape.
  std::map<std::string, std::int64_t> dims;
  std::set<std::string> with{};  ///< Optional arguments that this call has; by itself, none.
};

struct OpCase {
  std::string op;
  std::string rows;                          ///< The symbol that --m sets.
  std::map<std::string, std::int64_t> dims;  ///< Values of the other symbols.
  std::map<std::string, double> scalars;     ///< Of every scalar argument, optional ones too.
  std::map<std::string, DType> dtypes;       ///< Where not the first one that the op allows.
  std::set<std::string> with;                ///< Optional arguments, where a call asks for none.
  /// Inputs that fill_random does not serve. A fill sees the call with the tensors before its own
  /// filled, in the order of the op's arguments.
  std::map<std::string, std::function<void(HostTensor&, std::mt19937_64&, const HostCall&)>> fills;
  /// Bytes that a perfect kernel moves, where that is not every input and output once.
  std::function<std::size_t(const HostCall&)> traffic;
  std::vector<TimedShape> shapes;
  /// Stores every output. Bitwise, as the op's contract is.
  std::function<void(HostCall&, const ReferenceDevice&)> reference;
};

/// Every built-in op's case, by file name.
std::vector<OpCase> builtin_cases();

/// Throws Error(kInvalidArgument) when the command has no case for the op.
OpCase find_case(std::string_view op);

/// A shape for each number of rows, which replaces the {} of `text`; `dims` are the other symbols
/// that differ from the case's.
std::vector<TimedShape> shapes_of_rows(std::string_view text, const std::string& symbol,
                                       std::initializer_list<std::int64_t> rows,
                                       const std::map<std::string, std::int64_t>& dims = {});

}  // namespace kiln::tools
