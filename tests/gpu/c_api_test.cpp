// The C interface on a device: an op described in C computes what it says.
#include <cstring>
#include <string>
#include <vector>

#include "tests/c_api/axpy.h"
#include "tests/gpu/support/gpu.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {

TEST_CASE("An op described in C computes what its source says", "[c_api]") {
  Gpu& gpu = Gpu::instance();
  constexpr std::int64_t kCount = 100003;
  constexpr std::size_t kBytes = kCount * sizeof(float);
  std::vector<float> x(kCount);
  std::vector<float> y(kCount);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i % 1000);
    y[i] = static_cast<float>(i % 77);
  }
  const Buffer device_x(kBytes);
  const Buffer device_y(kBytes);
  const GuardedBuffer out(kBytes);
  device_x.upload(x.data(), kBytes);
  device_y.upload(y.data(), kBytes);
  out.poison(0xFF);

  const test::TempDir cache;
  const std::string root = cache.str();
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  options.cache_root = root.c_str();
  const axpy_data data = {static_cast<float*>(device_x.data()),
                          static_cast<float*>(device_y.data()),
                          static_cast<float*>(out.data()),
                          kCount,
                          0,
                          gpu.stream.get()};
  if (const char* const wrong = axpy_run(&options, &data)) {
    FAIL(wrong << ": " << kiln_last_error_message());
  }
  gpu.stream.synchronize();
  const std::vector<std::uint8_t> bytes = out.download();
  std::vector<float> found(kCount);
  std::memcpy(found.data(), bytes.data(), kBytes);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    wrong += found[i] == 2 * x[i] + y[i] ? 0U : 1U;  // Exact in fp32.
  }
  CHECK(wrong == 0);
  CHECK(out.canaries_intact());
}

}  // namespace kiln::gpu
