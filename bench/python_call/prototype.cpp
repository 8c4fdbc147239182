// What call_cost.py compares with: the same call from a loop in C++, and through nanobind in place
// of apache-tvm-ffi.

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <kiln/kiln.hpp>

namespace kiln::bench {
namespace {

namespace nb = nanobind;

DLTensor to_dlpack(const nb::ndarray<>& array) {
  DLTensor out{};
  out.data = array.data();
  out.device = {static_cast<DLDeviceType>(array.device_type()), array.device_id()};
  out.ndim = static_cast<std::int32_t>(array.ndim());
  out.dtype = {array.dtype().code, array.dtype().bits, array.dtype().lanes};
  out.shape = const_cast<std::int64_t*>(array.shape_ptr());  // DLPack knows no const; only read.
  out.strides = const_cast<std::int64_t*>(array.stride_ptr());
  return out;
}

EngineOptions options(const std::string& driver, const std::string& cache_root) {
  EngineOptions out;
  out.driver = driver;
  out.cache_root = cache_root;
  return out;
}

/// An engine of its own, and one op of three tensors.
class Caller {
 public:
  Caller(const std::string& op, const std::string& driver, const std::string& cache_root)
      : engine_(options(driver, cache_root)), op_(op) {}

  void launch(const nb::ndarray<>& a, const nb::ndarray<>& b, const nb::ndarray<>& c,
              std::uintptr_t stream) {
    const std::array<DLTensor, 3> tensors{to_dlpack(a), to_dlpack(b), to_dlpack(c)};
    call(tensors, stream);
  }
  /// Nanoseconds of one call, over `count` of them.
  double loop(const nb::ndarray<>& a, const nb::ndarray<>& b, const nb::ndarray<>& c,
              std::uintptr_t stream, int count) {
    const std::array<DLTensor, 3> tensors{to_dlpack(a), to_dlpack(b), to_dlpack(c)};
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      call(tensors, stream);
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    return taken.count() / count;
  }

 private:
  void call(const std::array<DLTensor, 3>& tensors, std::uintptr_t stream) {
    const Arg args[] = {tensors[0], tensors[1], tensors[2]};
    engine_.launch(op_, args, reinterpret_cast<StreamHandle>(stream));
  }

  Engine engine_;
  std::string op_;
};

}  // namespace
}  // namespace kiln::bench

NB_MODULE(kiln_prototype, module) {
  using kiln::bench::Caller;
  // The macro's parameter. NOLINTNEXTLINE(performance-unnecessary-value-param)
  nanobind::class_<Caller>(module, "Caller")
      .def(nanobind::init<const std::string&, const std::string&, const std::string&>())
      .def("launch", &Caller::launch)
      .def("loop", &Caller::loop);
}
