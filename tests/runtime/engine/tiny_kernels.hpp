#pragma once

#include <vector>

#include "runtime/kernel_provider.hpp"
#include "tests/support/tiny_op.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::test {

/// The variants of tiny_op for one target, ready to be obtained.
class TinyKernels {
 public:
  explicit TinyKernels(int count) {
    const registry::BoundOp* bound = value_or_throw(registry_.add(tiny_op(count)));
    for (const Variant& variant : registry::enumerate(*bound, parse_target("sm_90"))) {
      candidates_.push_back(value_or_throw(runtime::Candidate::of(variant)));
    }
  }
  const std::vector<runtime::Candidate>& all() const { return candidates_; }
  const runtime::Candidate& operator[](std::size_t index) const { return candidates_[index]; }

 private:
  registry::Registry registry_;
  std::vector<runtime::Candidate> candidates_;
};

}  // namespace kiln::test
