#include "cache/layout.hpp"

#include "tests/support/catch.hpp"

namespace kiln::cache {

TEST_CASE("Entries lie below the version, the target and the toolchain (field report 47)") {
  const Layout layout("/root");
  const EntryAddress address{"sm_90a", {13, 0, digest("t")}, digest("s")};
  CHECK(layout.entry(address) ==
        "/root/v1/sm_90a/13.0-" + digest("t").hex() + "/" + digest("s").hex() + ".cubin");
  CHECK(layout.temporary() == "/root/v1/tmp");
  CHECK(layout.quarantine() == "/root/v1/quarantine");
  CHECK(layout.locks() == "/root/v1/locks");
  CHECK(Layout("/").top() == "/v1");
}

TEST_CASE("Only a path below the version's folder belongs to a layout") {
  const Layout layout("/root");
  CHECK(layout.contains("/root/v1/sm_90a/x"));
  CHECK_FALSE(layout.contains("/root/v1"));
  CHECK_FALSE(layout.contains("/root/v10/x"));
  CHECK_FALSE(layout.contains("/other/v1/x"));
}

TEST_CASE("A target's name is a plain folder name and none of the store's own") {
  CHECK(Layout::is_target_name("sm_90a"));
  CHECK(Layout::is_target_name("sm_120"));
  for (const char* wrong :
       {"", ".", "..", "a/b", "/a", "sm 90", "tmp", "quarantine", "locks", "sm_90\n"}) {
    INFO(wrong);
    CHECK_FALSE(Layout::is_target_name(wrong));
  }
}

TEST_CASE("An entry's name parses only from what it is") {
  const Digest source = digest("s");
  CHECK(Layout::parse_entry_name(Layout::entry_name(source)) == source);
  CHECK_FALSE(Layout::parse_entry_name(source.hex()));
  CHECK_FALSE(Layout::parse_entry_name(source.hex() + ".cubin.tmp"));
  CHECK_FALSE(Layout::parse_entry_name("x" + source.hex() + ".cubin"));
  CHECK_FALSE(Layout::parse_entry_name(".cubin"));
}

}  // namespace kiln::cache
