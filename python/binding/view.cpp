// Tensors from what an array interface other than DLPack says, or of no memory at all.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include "python/binding/error.hpp"
#include "python/binding/exports.hpp"

namespace kiln::python {
namespace {

namespace ffi = tvm::ffi;

// Memory that stays its owner's.
struct Borrowed {
  void* data;
  void AllocData(DLTensor* tensor) const { tensor->data = data; }  // NOLINT: the library's name
  void FreeData(DLTensor*) const {}                                // NOLINT: the library's name
};

// address, type code, bits, device type, device, extents, strides: as many of the one as of the
// other
void view(const ffi::PackedArgs& args, ffi::Any* result) {
  constexpr int kFirstExtent = 5;
  const auto number = [&](int i) { return args[i].cast<std::int64_t>(); };
  const int rank = (args.size() - kFirstExtent) / 2;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  shape.reserve(static_cast<std::size_t>(rank) + 1);  // Not null without axes either.
  strides.reserve(static_cast<std::size_t>(rank) + 1);
  for (int axis = 0; axis < rank; ++axis) {
    shape.push_back(number(kFirstExtent + axis));
    strides.push_back(number(kFirstExtent + rank + axis));
  }
  const DLDataType dtype{static_cast<std::uint8_t>(number(1)), static_cast<std::uint8_t>(number(2)),
                         1};
  if (number(4) != static_cast<std::int32_t>(number(4))) {
    refuse("its device is " + std::to_string(number(4)) + ", which no machine has");
  }
  const DLDevice device{static_cast<DLDeviceType>(number(3)), static_cast<std::int32_t>(number(4))};
  *result = ffi::Tensor::FromNDAllocStrided(
      Borrowed{reinterpret_cast<void*>(number(0))}, ffi::ShapeView(shape.data(), shape.size()),
      ffi::ShapeView(strides.data(), strides.size()), dtype, device);
}

}  // namespace
}  // namespace kiln::python

KILN_EXPORT_PACKED(view, kiln::python::view)
