#include "cache/atomic_file.hpp"

#include <cerrno>

#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {

using namespace test;

TEST_CASE("An atomic file appears whole on commit") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const std::string root = *disk.canonical(dir.str());
  AtomicFile file(disk, root + "/temporary", root + "/final");
  CHECK(files_below(root).empty());
  disk.write_at_most(3);
  REQUIRE(file.write("0123456789", 0600));
  CHECK(files_below(root) == std::vector<std::string>{root + "/temporary"});
  CHECK(disk.calls(Call::kSync) == 1);
  REQUIRE(file.commit());
  CHECK(files_below(root) == std::vector<std::string>{root + "/final"});
  CHECK(read_bytes(root + "/final") == "0123456789");
}

TEST_CASE("An atomic file that is not committed leaves nothing behind") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const std::string root = *disk.canonical(dir.str());
  { AtomicFile never_written(disk, root + "/temporary", root + "/final"); }
  {
    AtomicFile file(disk, root + "/temporary", root + "/final");
    REQUIRE(file.write("bytes", 0600));
  }
  CHECK(files_below(root).empty());
}

TEST_CASE("An atomic file that fails at any step leaves nothing behind and says what failed") {
  const kiln::test::TempDir dir;
  const Call call = GENERATE(Call::kCreate, Call::kWrite, Call::kSync, Call::kClose, Call::kRename);
  FaultyFileSystem disk;
  const std::string root = *disk.canonical(dir.str());
  {
    AtomicFile file(disk, root + "/temporary", root + "/final");
    disk.fail(call, ENOSPC);
    IoStatus status = file.write("bytes", 0600);
    if (status) {
      status = file.commit();
    }
    REQUIRE_FALSE(status);
    CHECK(status.error().code == ENOSPC);
    CHECK(status.error().what.find("No space left") != std::string::npos);
    CHECK(status.error().what.find(root) != std::string::npos);
    disk.heal();
  }
  CHECK(files_below(root).empty());
}

TEST_CASE("A write that takes no byte is a full disk, not an endless loop") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const std::string root = *disk.canonical(dir.str());
  AtomicFile file(disk, root + "/temporary", root + "/final");
  disk.write_at_most(0);
  const IoStatus status = file.write("bytes", 0600);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == ENOSPC);
}

TEST_CASE("A rename that reports no temporary file is success when the final file is there") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const std::string root = *disk.canonical(dir.str());
  AtomicFile file(disk, root + "/temporary", root + "/final");
  REQUIRE(file.write("ours", 0600));
  SECTION("it is there") {
    write_bytes(root + "/final", "another writer's");
    disk.fail(Call::kRename, ENOENT);
    CHECK(file.commit());
  }
  SECTION("it is not") {
    disk.fail(Call::kRename, ENOENT);
    CHECK_FALSE(file.commit());
  }
}

TEST_CASE("A file system that cannot sync folders is no failure") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const std::string root = *disk.canonical(dir.str());
  CHECK(sync_directory(disk, root));
  disk.fail(Call::kSync, EINVAL, 1);
  CHECK(sync_directory(disk, root));
  disk.fail(Call::kSync, EIO, 1);
  CHECK_FALSE(sync_directory(disk, root));
}

}  // namespace kiln::cache
