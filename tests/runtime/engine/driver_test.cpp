#include "runtime/driver/driver.hpp"

#include "runtime/driver/handles.hpp"
#include "tests/runtime/engine/machine.hpp"

namespace kiln::test {

TEST_CASE("A driver gives its version, its path and what is fixed about each device") {
  Machine machine;
  machine.fake().set_devices({{.name = "One", .major = 9, .multiprocessors = 78},
                              {.name = "Two", .major = 12, .minor = 1}});
  const auto driver = runtime::Driver::load(machine.options().driver);
  REQUIRE(driver);
  CHECK((*driver)->version_text() == "13.0");
  CHECK((*driver)->major() == 13);
  CHECK((*driver)->path() == machine.options().driver);
  REQUIRE((*driver)->devices().size() == 2);
  CHECK((*driver)->devices()[0].multiprocessors == 78);
  CHECK((*driver)->devices()[1].name == "Two");
  CHECK((*driver)->devices()[1].capability == ComputeCapability{12, 1});
  CHECK((*driver)->devices()[1].ordinal == 1);
  CHECK_FALSE((*driver)->device(2));
  CHECK_FALSE((*driver)->device(-1));
}

TEST_CASE("Two loads of one library are the same driver, and of two libraries are not") {
  Machine machine;
  Machine other;
  const auto first = runtime::Driver::load(machine.options().driver);
  const auto second = runtime::Driver::load(machine.options().driver);
  const auto third = runtime::Driver::load(other.options().driver);
  CHECK((*first)->identity() == (*second)->identity());
  CHECK((*first)->identity() != (*third)->identity());
}

TEST_CASE("A library that is no driver is refused by name") {
  Machine machine;
  const auto driver = runtime::Driver::load("libm.so.6");
  REQUIRE_FALSE(driver);
  CHECK(driver.error().code == ErrorCode::kDriverUnavailable);
  CHECK(contains(driver.error().message, "libm.so.6"));
}

TEST_CASE("Handles release what they own, once, and bytes come back as they went") {
  Machine machine;
  const auto loaded = runtime::Driver::load(machine.options().driver);
  REQUIRE(loaded);
  {
    auto context = runtime::PrimaryContext::retain(*loaded, 0);
    REQUIRE(context);
    auto moved = std::move(*context);
    auto stream = runtime::Stream::create(*loaded);
    REQUIRE(stream);
    CHECK(stream->synchronize());
    auto memory = runtime::DeviceMemory::allocate(*loaded, 8);
    REQUIRE(memory);
    CHECK(memory->fill(0xAB));
    CHECK(memory->upload("kiln", 4));
    char back[8] = {};
    CHECK(memory->download(back, 8));
    CHECK(std::string(back, 8) == "kiln\xAB\xAB\xAB\xAB");
  }
  CHECK(machine.fake().count("cuDevicePrimaryCtxRelease") == 1);
  CHECK(machine.fake().count("cuStreamDestroy") == 1);
  CHECK(machine.fake().count("cuMemFree") == 1);
  machine.fake().fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY, 1);
  const auto none = runtime::DeviceMemory::allocate(*loaded, 8);
  REQUIRE_FALSE(none);
  CHECK(contains(none.error().message, "CUDA_ERROR_OUT_OF_MEMORY"));
}

}  // namespace kiln::test
