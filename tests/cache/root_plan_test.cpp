#include "cache/root_plan.hpp"

#include <cerrno>
#include <filesystem>

#include <unistd.h>

#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;

struct Place {
  Place() : root(*disk.canonical(dir.str())) {
    fs::create_directory(root + "/tmp");
    inputs.tmpdir = root + "/tmp";
    inputs.uid = geteuid();
  }
  bool warns_of_variable(const RootPlan& plan) const {
    return plan.warning.find("KILN_CACHE_DIR") != std::string::npos;
  }
  kiln::test::TempDir dir;
  FaultyFileSystem disk;
  std::string root;
  RootInputs inputs;
  std::string fallback() const { return fallback_root(inputs); }
};

}  // namespace

TEST_CASE("A root that is there or can be made is writable, without a warning") {
  Place place;
  place.inputs.option = place.root + "/missing/kiln";
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable == place.root + "/missing/kiln");
  CHECK(plan.read_only.empty());
  CHECK(plan.warning.empty());
  CHECK(plan.description.find("writable") != std::string::npos);
  CHECK_FALSE(fs::exists(place.root + "/missing"));

  fs::create_directories(place.inputs.option);
  CHECK(plan_root(place.disk, place.inputs).writable == plan.writable);
}

TEST_CASE("A default root is private, a named one as readable as the umask says") {
  Place place;
  place.inputs.option = place.root + "/named";
  CHECK(plan_root(place.disk, place.inputs).directory_mode == 0755);
  CHECK(plan_root(place.disk, place.inputs).file_mode == 0644);
  place.inputs.option = "";
  place.inputs.home = place.root;
  CHECK(plan_root(place.disk, place.inputs).directory_mode == 0700);
  CHECK(plan_root(place.disk, place.inputs).file_mode == 0600);
}

TEST_CASE("A named root's links are resolved once") {
  Place place;
  fs::create_directory(place.root + "/real");
  fs::create_symlink(place.root + "/real", place.root + "/link");
  place.inputs.option = place.root + "/link";
  CHECK(plan_root(place.disk, place.inputs).writable == place.root + "/real");
}

TEST_CASE("A named root that cannot be written is read, and nothing takes its place") {
  Place place;
  const int error = GENERATE(EROFS, EACCES);
  const bool by_variable = GENERATE(true, false);
  fs::create_directory(place.root + "/named");
  (by_variable ? place.inputs.kiln_cache_dir : place.inputs.option) = place.root + "/named";
  place.inputs.home = place.root;
  place.disk.fail(Call::kCheckWritable, error, 1);
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable.empty());
  CHECK(plan.read_only == place.root + "/named");
  CHECK(place.warns_of_variable(plan));
  CHECK(plan.warning.find(errno_text(error)) != std::string::npos);
}

TEST_CASE("A root whose version folder cannot be written is a root that cannot be written") {
  Place place;
  fs::create_directories(place.root + "/named/v1");
  place.inputs.option = place.root + "/named";
  place.disk.fail(Call::kCheckWritable, EACCES, 1);
  CHECK(plan_root(place.disk, place.inputs).read_only == place.root + "/named");
  CHECK(place.disk.calls(Call::kCheckWritable) == 1);
}

TEST_CASE("A root that is a file or lies below one is no root") {
  Place place;
  write_bytes(place.root + "/file", "x");
  place.inputs.option = place.root + GENERATE("/file", "/file/below");
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable.empty());
  CHECK(plan.read_only.empty());
  CHECK(place.warns_of_variable(plan));
  CHECK(plan.warning.find("Not a directory") != std::string::npos);
}

TEST_CASE("A default root that cannot be written gives way to the user's temporary directory") {
  Place place;
  fs::create_directories(place.root + "/.cache/kiln");
  place.inputs.home = place.root;
  place.disk.fail(Call::kCheckWritable, EROFS, 1);
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable == place.fallback());
  CHECK(plan.required_owner == geteuid());
  CHECK(plan.read_only == place.root + "/.cache/kiln");
  CHECK(place.warns_of_variable(plan));
  CHECK(plan.warning.find(place.fallback()) != std::string::npos);
  CHECK_FALSE(fs::exists(place.fallback()));
}

TEST_CASE("Without any variable the user's temporary directory is used") {
  Place place;
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable == place.fallback());
  CHECK(plan.read_only.empty());
  CHECK(place.warns_of_variable(plan));
}

TEST_CASE("A fallback root that is not a private directory of this user is skipped") {
  Place place;
  SECTION("a symbolic link, even to such a directory") {
    fs::create_directory(place.root + "/mine");
    fs::permissions(place.root + "/mine", fs::perms::owner_all);
    fs::create_symlink(place.root + "/mine", place.fallback());
  }
  SECTION("a file") {
    write_bytes(place.fallback(), "x");
  }
  SECTION("writable by the group") {
    fs::create_directory(place.fallback());
    fs::permissions(place.fallback(), fs::perms::owner_all | fs::perms::group_all);
  }
  SECTION("writable by all") {
    fs::create_directory(place.fallback());
    fs::permissions(place.fallback(), fs::perms::all);
  }
  SECTION("of another user") {
    place.inputs.uid = geteuid() + 1;
    fs::create_directory(place.fallback());
    fs::permissions(place.fallback(), fs::perms::owner_all);
  }
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable.empty());
  CHECK(place.warns_of_variable(plan));
  CHECK(plan.warning.find("memory") != std::string::npos);
}

TEST_CASE("A sandbox that does not know the question leaves the answer to the first write") {
  Place place;
  place.inputs.option = place.root;
  place.disk.fail(Call::kCheckWritable, EPERM);
  CHECK(plan_root(place.disk, place.inputs).writable == place.root);
}

}  // namespace kiln::cache
