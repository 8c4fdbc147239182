#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include <kiln/engine.hpp>

#include "tests/gpu/support/cuda.hpp"

namespace kiln::gpu {

/// An array of int32 or int64 on the device, one element off any larger alignment.
class Integers {
 public:
  Integers(const std::vector<std::int64_t>& values, bool wide)
      : wide_(wide), count_(values.size()), buffer_((values.size() + 1) * width()) {
    set(values);
  }
  void set(const std::vector<std::int64_t>& values) const {
    if (values.empty()) {
      return;
    }
    if (wide_) {
      buffer_.upload(values.data(), values.size() * 8, 8);
    } else {
      const std::vector<std::int32_t> narrow(values.begin(), values.end());
      buffer_.upload(narrow.data(), narrow.size() * 4, 4);
    }
  }
  void* data() const { return static_cast<char*>(buffer_.data()) + width(); }
  std::size_t bytes() const { return count_ * width(); }
  DType dtype() const { return wide_ ? DType::kI64 : DType::kI32; }
  Tensor tensor(std::initializer_list<std::int64_t> shape) const {
    return {data(), dtype(), shape};
  }

 private:
  std::size_t width() const { return wide_ ? 8 : 4; }

  bool wide_;
  std::size_t count_;
  Buffer buffer_;
};

}  // namespace kiln::gpu
