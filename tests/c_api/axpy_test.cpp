// A C program's whole use of the shared library, with the fake driver and this machine's NVRTC.

#include "tests/c_api/axpy.h"

#include "tests/runtime/engine/compile_support.hpp"

namespace kiln::test {

TEST_CASE("A C11 file makes an engine, registers an op, gets it ready, and launches it") {
  CompilingMachine machine;
  if (!machine.has_nvrtc()) {
    return;
  }
  machine.enter();
  const std::string driver = machine.dir().str("libcuda.so.1");
  const std::string root = machine.cache_root();
  kiln_engine_options options = KILN_INIT(kiln_engine_options);
  options.driver = driver.c_str();
  options.cache_root = root.c_str();
  options.jit = KILN_JIT_ALLOW;
  const auto at = [](std::uint64_t value) { return static_cast<float*>(address(value)); };
  const axpy_data data = {at(0x10000), at(0x20000), at(0x30000), 1000, 0, nullptr};
  if (const char* const wrong = axpy_run(&options, &data)) {
    FAIL(wrong << ": " << kiln_last_error_message());
  }
  const std::vector<fake::Launch> launches = machine.fake().launches();
  REQUIRE(launches.size() == 3);
  for (const fake::Launch& launch : launches) {
    CHECK(contains(launch.symbol, "axpy"));
    CHECK(launch.grid[0] == 4);
    CHECK(launch.block[0] == 256);
  }
}

}  // namespace kiln::test
