#include "runtime/nvrtc/ptx.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace kiln::runtime {
namespace {

constexpr const char* kTwoEntries = R"(
.version 9.0
.target sm_90a
.address_size 64
.visible .entry waits(
	.param .u64 waits_param_0,
	.param .align 8 .b8 waits_param_1[16]
)
.maxntid 128, 1, 1
{
	.reg .b32 %r<3>;
	{ // a nested scope
	mov.b64 %rd1, {%r1, %r2};
	}
	griddepcontrol.wait;
	ret;
}
	// .globl	plain
.visible .entry plain()
{
	// griddepcontrol.wait;
	/* griddepcontrol.wait; */
	griddepcontrol.launch_dependents;
	ret;
}
)";

TEST_CASE("The PDL wait is recorded for the entry that holds it and for no other") {
  CHECK(entry_waits(kTwoEntries, "waits"));
  CHECK_FALSE(entry_waits(kTwoEntries, "plain"));
}

TEST_CASE("An entry that is not there does not wait") {
  CHECK_FALSE(entry_waits(kTwoEntries, "wait"));
  CHECK_FALSE(entry_waits(kTwoEntries, "waits2"));
  CHECK_FALSE(entry_waits(kTwoEntries, ""));
  CHECK_FALSE(entry_waits("", "waits"));
}

TEST_CASE("A wait in another function or behind the entry does not count") {
  CHECK_FALSE(entry_waits(".func helper() { griddepcontrol.wait; ret; } .entry k() { ret; }", "k"));
  CHECK_FALSE(entry_waits(".entry k() { ret; } .func helper() { griddepcontrol.wait; ret; }", "k"));
  CHECK_FALSE(entry_waits(".entry k() { ret; } .entry j() { griddepcontrol.wait; ret; }", "k"));
}

TEST_CASE("An entry's declaration is not its body") {
  CHECK(entry_waits(".entry k(.param .u64 p); .entry k(.param .u64 p) { griddepcontrol.wait; }",
                    "k"));
  CHECK_FALSE(entry_waits(".entry k(); .entry j() { griddepcontrol.wait; }", "k"));
}

TEST_CASE("A string in a directive is no instruction") {
  CHECK_FALSE(entry_waits(".entry k() { .pragma \"} griddepcontrol.wait; {\"; ret; }", "k"));
  CHECK(entry_waits(".entry k() { .pragma \"}\"; griddepcontrol.wait; }", "k"));
}

TEST_CASE("PTX that is cut off anywhere is read to its end and no further") {
  const std::string ptx = kTwoEntries;
  const std::size_t wait =
      ptx.find("griddepcontrol.wait") + std::string("griddepcontrol.wait").size();
  for (std::size_t size = 0; size <= ptx.size(); ++size) {
    CAPTURE(size);
    CHECK(entry_waits(ptx.substr(0, size), "waits") == (size >= wait));
  }
}

}  // namespace
}  // namespace kiln::runtime
