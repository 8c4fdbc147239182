#include "runtime/nvrtc/ptxas_log.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace kiln::runtime {
namespace {

// NVRTC 13.0's log of two kernels, one of which calls a function.
constexpr const char* kLog =
    "k.cu(2): warning #177-D: variable \"registers\" was declared but never referenced\n\n"
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function '_Z1kILi3EEvPf' for 'sm_90a'\n"
    "ptxas info    : Function properties for _Z1kILi3EEvPf\n"
    "ptxas         .     768 bytes stack frame, 712 bytes spill stores, 716 bytes spill loads\n"
    "ptxas info    : Used 32 registers, used 1 barriers, 768 bytes cumulative stack size, 1332 "
    "bytes "
    "smem\n"
    "ptxas info    : Compile time = 29.126 ms\n"
    "ptxas info    : Function properties for f\n"
    "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
    "ptxas info    : Compiling entry function '_Z5otherPf' for 'sm_90a'\n"
    "ptxas info    : Function properties for _Z5otherPf\n"
    "ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 8 registers, used 0 barriers\n"
    "ptxas info    : Compile time = 1.019 ms\n";

TEST_CASE("Registers, shared memory, stack and spills are read for the kernel asked for") {
  const auto resources = resources_from_log(kLog, "_Z1kILi3EEvPf");
  REQUIRE(resources);
  CHECK(*resources == cache::Resources{32, 1332, 768, 712, 716});
}

TEST_CASE("A kernel without shared memory and spills has none") {
  const auto resources = resources_from_log(kLog, "_Z5otherPf");
  REQUIRE(resources);
  CHECK(*resources == cache::Resources{8, 0, 0, 0, 0});
}

TEST_CASE("The shorter log of NVRTC 12.3 is read as well") {
  const auto resources = resources_from_log(
      "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
      "ptxas info    : Function properties for k\n"
      "ptxas         .     1168 bytes stack frame, 1352 bytes spill stores, 1492 bytes spill "
      "loads\n"
      "ptxas info    : Used 255 registers",
      "k");
  REQUIRE(resources);
  CHECK(*resources == cache::Resources{255, 0, 1168, 1352, 1492});
}

TEST_CASE("A log that does not mention the kernel says nothing about it") {
  CHECK_FALSE(resources_from_log(kLog, "_Z1kILi3EEvP"));
  CHECK_FALSE(resources_from_log("", "k"));
}

TEST_CASE("A log that is cut off anywhere is read to its end and no further") {
  const std::string log = kLog;
  for (std::size_t size = 0; size < log.size(); ++size) {
    const auto resources = resources_from_log(log.substr(0, size), "_Z1kILi3EEvPf");
    CHECK((!resources || resources->registers <= 32));
  }
}

}  // namespace
}  // namespace kiln::runtime
