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
  DirectoryLayer layer(disk, root, TrustRole::kNamedRoot, TrustPolicy::of_process());
  const bool written = Publisher(disk, layer, RootPlan()).write(sample_entry()).has_value();
  std::filesystem::remove_all(root);
  CHECK(written);
}

TEST_CASE("A folder that another process makes at the same moment is success (field report 5)") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const Layout layout(*disk.canonical(dir.str()) + "/root");
  DirectoryLayer layer(disk, layout.root(), TrustRole::kNamedRoot, TrustPolicy::of_process());
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
  DirectoryLayer layer(disk, *disk.canonical(dir.str()) + "/root", TrustRole::kNamedRoot,
                       TrustPolicy::of_process());
  disk.fail(Call::kMakeDirectory, EEXIST);
  const auto written = Publisher(disk, layer, RootPlan()).write(sample_entry());
  REQUIRE_FALSE(written);
  CHECK(written.error().code == ENOENT);
}

TEST_CASE("A folder that vanishes during a publish is made again") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  DirectoryLayer layer(disk, *disk.canonical(dir.str()) + "/root", TrustRole::kNamedRoot,
                       TrustPolicy::of_process());
  // As when somebody clears the cache between two steps.
  const Call call = GENERATE(Call::kMakeDirectory, Call::kCreate, Call::kRename);
  disk.fail(call, ENOENT, 1);
  CHECK(Publisher(disk, layer, RootPlan()).write(sample_entry()));
  CHECK(disk.faults() == 1);
  CHECK(files_below(layer.layout().temporary()).empty());
}

TEST_CASE("A trial write needs what an entry's write needs, and leaves no file") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  DirectoryLayer layer(disk, *disk.canonical(dir.str()) + "/root", TrustRole::kNamedRoot,
                       TrustPolicy::of_process());
  Publisher publisher(disk, layer, RootPlan());
  for (const Call call : {Call::kMakeDirectory, Call::kCreate, Call::kWrite}) {
    disk.fail(call, ENOSPC);
    const auto refused = publisher.try_write();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ENOSPC);
    CHECK(files_below(dir.str()).empty());
    disk.fail(call, ENOENT, 1);  // As when somebody clears the cache between two steps.
    CHECK(publisher.try_write());
    CHECK(files_below(dir.str()).empty());
    std::filesystem::remove_all(layer.layout().root());
  }
}

TEST_CASE("A folder in an entry's place goes to the quarantine, and the entry takes its place") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const std::string root = *disk.canonical(dir.str()) + "/root";
  DirectoryLayer layer(disk, root, TrustRole::kNamedRoot, TrustPolicy::of_process());
  const Entry entry = sample_entry();
  const std::string path = entry_path(root, entry);
  const bool empty = GENERATE(true, false);
  std::filesystem::create_directories(path);
  if (!empty) {
    write_bytes(path + "/precious", "x");
  }
  REQUIRE(Publisher(disk, layer, RootPlan()).write(entry));
  CHECK(read_bytes(path) == encode_entry(entry));
  CHECK(files_below(layer.layout().quarantine()).size() == (empty ? 0 : 1));
  CHECK(files_below(layer.layout().temporary()).empty());
}

}  // namespace kiln::cache
