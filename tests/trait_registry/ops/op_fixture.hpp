#pragma once

/// \file
/// Built-in ops, to be called without a device: what their check says, and what they would launch.

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "trait_registry/check.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/target.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::registry::test {

/// Addresses on a device, far from each other: compared, never followed.
inline void* at(std::uintptr_t index, std::uintptr_t offset = 0) {
  return reinterpret_cast<void*>((index + 1) << 50 | offset);
}

class OpFixture {
 public:
  explicit OpFixture(const char* name) : op(**registry_.find(name)), problem(op.names) {}

  /// What is wrong with the call, or empty.
  std::string error(const std::vector<Arg>& args) {
    problem = Problem(op.names);
    problem.set_target(parse_target(target));
    problem.set_pdl(true);
    int device = -1;
    const Status status = check_call(op, args, true, problem, device);
    return status ? "" : status.error().message;
  }
  /// Of the kernel, for the call that was checked last.
  Geometry geometry(std::size_t kernel = 0) const {
    return op.op.kernels[kernel].geometry(problem, choose_traits(op, problem));
  }
  /// Likewise: a parameter that is worked out.
  std::int64_t computed(const std::string& name, std::size_t kernel = 0) const {
    for (const Param& param : op.op.kernels[kernel].params) {
      if (param.name == name) {
        return param.compute(problem);
      }
    }
    FAIL("no parameter " << name);
    return 0;
  }

 private:
  Registry registry_;

 public:
  const BoundOp& op;
  Problem problem;
  std::string target = "sm_90a";
};

/// Several ops. A call has the op's `name` and its `args()`.
class OpsFixture {
 public:
  const BoundOp& op(const std::string& name) const { return **registry_.find(name); }

  /// What is wrong with the call, or empty.
  template <class Call>
  std::string error(const Call& call) const {
    Problem problem(op(call.name).names);
    int device = -1;
    const Status status = check_call(op(call.name), call.args(), true, problem, device);
    return status ? "" : status.error().message;
  }
  /// Checks the call, which is right, and gives its first kernel's launch.
  template <class Call>
  Geometry geometry(const Call& call, Traits& traits, const std::string& target = "sm_90a") const {
    const BoundOp& bound = op(call.name);
    Problem problem(bound.names);
    problem.set_target(parse_target(target));
    problem.set_pdl(true);
    int device = -1;
    REQUIRE(check_call(bound, call.args(), true, problem, device));
    traits = choose_traits(bound, problem);
    CHECK(compile_unit({&bound.op, 0, traits, problem.target()}));
    return bound.op.kernels[0].geometry(problem, traits);
  }

 private:
  Registry registry_;
};

}  // namespace kiln::registry::test
