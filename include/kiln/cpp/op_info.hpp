#pragma once

/// \file
/// What an engine's ops are.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <kiln/cpp/error.hpp>
#include <kiln/cpp/op_spec.hpp>
#include <kiln/kiln.h>

namespace kiln {
inline namespace abi0 {

struct OpInfo {
  struct Arg {
    std::string name;
    std::string summary;
    bool is_tensor = false;  ///< Else a scalar.
    bool optional = false;   ///< May be left out.
    Access access = Access::kRead;
    bool constant = false;  ///< See LaunchOptions::constants_ready.
  };
  std::string name;
  std::string family;
  std::string summary;
  std::vector<Arg> args;           ///< In the op's order.
  int min_compute_capability = 0;  ///< 90 for 9.0.
  int kernel_count = 0;
};

namespace detail {

inline OpInfo op_info_of(kiln_engine* engine, const char* op) {
  kiln_op_info c = sized<kiln_op_info>();
  check(kiln_op_by_name(engine, op, &c));
  OpInfo info;
  info.name = c.name;
  info.family = c.family;
  info.summary = c.summary;
  info.min_compute_capability = c.min_compute_capability;
  info.kernel_count = c.kernel_count;
  for (std::size_t i = 0; i < c.arg_count; ++i) {
    kiln_op_arg_info arg = sized<kiln_op_arg_info>();
    check(kiln_op_arg_at(engine, op, i, &arg));
    info.args.push_back({arg.name, arg.summary, arg.is_tensor != 0, arg.optional != 0,
                         static_cast<Access>(arg.access), arg.constant != 0});
  }
  return info;
}

inline std::vector<std::string> op_names_of(kiln_engine* engine) {
  std::size_t count = 0;
  check(kiln_op_count(engine, &count));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    kiln_op_info c = sized<kiln_op_info>();
    check(kiln_op_at(engine, i, &c));
    names.emplace_back(c.name);
  }
  return names;
}

}  // namespace detail
}  // namespace abi0
}  // namespace kiln
