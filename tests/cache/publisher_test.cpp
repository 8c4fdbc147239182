#include "cache/publisher.hpp"

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>

#include <unistd.h>

#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {

using namespace test;

TEST_CASE("A root right below the top folder can be made") {
  PosixFileSystem disk;
  const std::string root = "/kiln-test-" + std::to_string(getpid());
  if (!disk.check_writable("/")) {
    WARN("skipped: this user cannot write the top folder");
    return;
  }
  DirectoryLayer layer(disk, root);
  const bool written = Publisher(disk, layer, RootPlan()).write(sample_entry()).has_value();
  std::filesystem::remove_all(root);
  CHECK(written);
}

TEST_CASE("A folder that another process makes at the same moment is success") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const Layout layout(*disk.canonical(dir.str()) + "/root");
  DirectoryLayer layer(disk, layout.root());
  Publisher publisher(disk, layer, RootPlan());
  REQUIRE(publisher.write(sample_entry()));
  // The first question about the root's folder sees nothing, and then the folder is there.
  disk.fail(Call::kPathStatus, ENOENT, 1);
  CHECK(publisher.write(sample_entry()));
  CHECK(disk.faults() == 1);
}

TEST_CASE("A folder that is said to exist and cannot be found is a failure, not a loop") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  DirectoryLayer layer(disk, *disk.canonical(dir.str()) + "/root");
  disk.fail(Call::kMakeDirectory, EEXIST);
  const IoStatus written = Publisher(disk, layer, RootPlan()).write(sample_entry());
  REQUIRE_FALSE(written);
  CHECK(written.error().code == ENOENT);
}

}  // namespace kiln::cache
