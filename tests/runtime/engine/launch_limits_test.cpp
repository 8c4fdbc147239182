#include "runtime/launch_limits.hpp"

#include "tests/runtime/engine/machine.hpp"

namespace kiln::test {
namespace {

std::string refusal(const Geometry& geometry, int static_shared = 0) {
  runtime::DeviceInfo device;
  device.name = "Fake";
  device.max_shared_bytes_per_block = 100 * 1024;
  const Status status = runtime::check_geometry("op, kernel k", geometry, static_shared, device);
  return status ? std::string() : status.error().message;
}

}  // namespace

TEST_CASE("A geometry within the device's limits passes") {
  CHECK(refusal({.grid = {0x7FFFFFFF, 65535, 65535}, .block = {1024, 1, 1}}).empty());
  CHECK(refusal({.grid = {16, 2, 1}, .block = {1, 1, 64}, .cluster = {4, 2, 1}}).empty());
  CHECK(refusal({.grid = {16, 1, 1}, .cluster = {16, 1, 1}}).empty());
  CHECK(refusal({.dynamic_shared_bytes = 60 * 1024}, 40 * 1024).empty());
}

TEST_CASE("A geometry beyond a limit is refused with the kernel's name and the numbers") {
  CHECK(contains(refusal({.grid = {1, 65536, 1}}), "op, kernel k: the grid (1, 65536, 1)"));
  CHECK(contains(refusal({.grid = {0x80000000U, 1, 1}}), "2147483647"));
  CHECK(contains(refusal({.block = {512, 3, 1}}), "1536 threads"));
  CHECK(contains(refusal({.block = {0, 1, 1}}), "0 threads"));
  CHECK(contains(refusal({.block = {1, 1, 65}}), "64 along z"));
  CHECK(
      contains(refusal({.grid = {32, 1, 1}, .cluster = {32, 1, 1}}), "has 32 blocks; at most 16"));
  CHECK(contains(refusal({.grid = {10, 1, 1}, .cluster = {4, 1, 1}}), "(4, 1, 1)"));
  CHECK(contains(refusal({.cluster = {0, 1, 1}}), "cluster"));
  CHECK(contains(refusal({.dynamic_shared_bytes = 60 * 1024 + 1}, 40 * 1024), "102401 bytes"));
}

}  // namespace kiln::test
