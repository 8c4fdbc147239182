#include "cache/quarantine.hpp"

#include <filesystem>

#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {

using namespace test;

TEST_CASE("A bad file moves to the quarantine under a name that says where it lay") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const Layout layout(*disk.canonical(dir.str()));
  const std::string path = layout.top() + "/sm_90/13.0-x/y.cubin";
  write_bytes(path, "bad");
  const auto moved = move_to_quarantine(disk, layout, Modes(), path);
  REQUIRE(moved);
  CHECK(moved->starts_with(layout.quarantine() + "/"));
  CHECK(moved->ends_with("-sm_90-13.0-x-y.cubin"));
  CHECK(read_bytes(*moved) == "bad");
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("The quarantine keeps the 64 newest files") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const Layout layout(*disk.canonical(dir.str()));
  for (int i = 0; i < 70; ++i) {
    const std::string path = layout.top() + "/sm_90/13.0-x/" + std::to_string(i) + ".cubin";
    write_bytes(path, std::to_string(i));
    REQUIRE(move_to_quarantine(disk, layout, Modes(), path));
  }
  const auto kept = files_below(layout.quarantine());
  REQUIRE(kept.size() == kMaxQuarantined);
  CHECK(read_bytes(kept.front()) == "6");
  CHECK(read_bytes(kept.back()) == "69");
}

}  // namespace kiln::cache
