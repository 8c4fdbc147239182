#include "cache/root_plan.hpp"

#include <cerrno>
#include <filesystem>

#include <sys/stat.h>
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

TEST_CASE("A default root is private, a named one as readable as the umask says, or the group's") {
  Place place;
  place.inputs.option = place.root + "/named";
  CHECK(plan_root(place.disk, place.inputs).modes.directory == 0755);
  CHECK(plan_root(place.disk, place.inputs).modes.file == 0644);
  CHECK_FALSE(plan_root(place.disk, place.inputs).modes.exact);
  place.inputs.trust.group_shared = true;
  CHECK(plan_root(place.disk, place.inputs).modes.directory == 02770);
  CHECK(plan_root(place.disk, place.inputs).modes.file == 0660);
  CHECK(plan_root(place.disk, place.inputs).modes.exact);
  place.inputs.option = "";
  place.inputs.home = place.root;
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.modes.directory == 0700);
  CHECK(plan.modes.file == 0600);
  CHECK_FALSE(plan.modes.exact);
  CHECK(plan.warning.find("shared by a group") != std::string::npos);
}

TEST_CASE("A relative path is refused for what it is, and nothing takes its place") {
  Place place;
  const bool by_variable = GENERATE(true, false);
  (by_variable ? place.inputs.kiln_cache_dir : place.inputs.option) = "tmp";
  place.inputs.home = place.root;
  place.disk.reset_counts();
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable.empty());
  CHECK(plan.read_only.empty());
  CHECK(plan.warning.find("not absolute") != std::string::npos);
  CHECK(place.disk.calls(Call::kCanonical) == 0);
}

TEST_CASE("The warning about a root names the setting that it came from") {
  Place place;
  write_bytes(place.root + "/file", "x");
  write_bytes(place.root + "/.cache/kiln", "x");
  write_bytes(place.root + "/kiln", "x");
  SECTION("the option") {
    place.inputs.option = place.root + "/file";
    place.inputs.kiln_cache_dir = place.root;
    const std::string warning = plan_root(place.disk, place.inputs).warning;
    CHECK(warning.find("set by the caller") != std::string::npos);
    CHECK(warning.find("cache_root") != std::string::npos);
    CHECK(warning.find("from KILN_CACHE_DIR") == std::string::npos);
  }
  SECTION("KILN_CACHE_DIR") {
    place.inputs.kiln_cache_dir = place.root + "/file";
    CHECK(plan_root(place.disk, place.inputs).warning.find("from KILN_CACHE_DIR") !=
          std::string::npos);
  }
  SECTION("XDG_CACHE_HOME") {
    place.inputs.xdg_cache_home = place.root;
    CHECK(plan_root(place.disk, place.inputs).warning.find("from XDG_CACHE_HOME") !=
          std::string::npos);
  }
  SECTION("HOME") {
    place.inputs.home = place.root;
    CHECK(plan_root(place.disk, place.inputs).warning.find("from HOME") != std::string::npos);
  }
}

TEST_CASE("A named root that is trusted on terms is used, and its one warning says on which") {
  Place place;
  fs::create_directory(place.root + "/named");
  REQUIRE(chmod((place.root + "/named").c_str(), 0775) == 0);
  place.inputs.option = place.root + "/named";
  RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable == place.root + "/named");
  CHECK(plan.verdict.kind == Verdict::Kind::kWarned);
  CHECK(plan.warning.find("0775") != std::string::npos);
  CHECK(plan.warning.find("KILN_CACHE_GROUP") != std::string::npos);
  place.inputs.trust.group_shared = true;
  CHECK(plan_root(place.disk, place.inputs).warning.empty());
}

TEST_CASE("A named root that everybody can write is not even read without the opt-in") {
  Place place;
  fs::create_directory(place.root + "/named");
  REQUIRE(chmod((place.root + "/named").c_str(), 01777) == 0);
  place.inputs.kiln_cache_dir = place.root + "/named";
  const RootPlan refused = plan_root(place.disk, place.inputs);
  CHECK(refused.writable.empty());
  CHECK(refused.read_only.empty());
  CHECK(refused.warning.find("KILN_CACHE_ALLOW_WORLD_WRITABLE") != std::string::npos);
  place.inputs.trust.allow_world_writable = true;
  const RootPlan accepted = plan_root(place.disk, place.inputs);
  CHECK(accepted.writable == place.root + "/named");
  CHECK_FALSE(accepted.warning.empty());
}

TEST_CASE("A default root that others could write, or that is a link, is skipped") {
  Place place;
  place.inputs.home = place.root;
  const std::string root = place.root + "/.cache/kiln";
  fs::create_directories(place.root + "/.cache");
  SECTION("the group") {
    fs::create_directory(root);
    REQUIRE(chmod(root.c_str(), 0770) == 0);
  }
  SECTION("everybody") {
    fs::create_directory(root);
    REQUIRE(chmod(root.c_str(), 01777) == 0);
  }
  SECTION("another owner") {
    fs::create_directory(root);
    ++place.inputs.trust.uid;
  }
  SECTION("a link, even to a directory of this user") {
    fs::create_directory(place.root + "/mine");
    fs::create_directory_symlink(place.root + "/mine", root);
  }
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.read_only.empty());
  CHECK(plan.writable == place.fallback());
  CHECK(plan.fallback);
  CHECK(plan.role == TrustRole::kDefaultRoot);
  CHECK(place.warns_of_variable(plan));
}

TEST_CASE("The folders above a default root may be links") {
  Place place;
  fs::create_directory(place.root + "/scratch");
  fs::create_directory_symlink(place.root + "/scratch", place.root + "/.cache");
  place.inputs.home = place.root;
  CHECK(plan_root(place.disk, place.inputs).writable == place.root + "/scratch/kiln");
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
  CHECK(plan.warning.find("ot a directory") != std::string::npos);
}

TEST_CASE("A default root that cannot be written gives way to the user's temporary directory") {
  Place place;
  fs::create_directories(place.root + "/.cache/kiln");
  place.inputs.home = place.root;
  place.disk.fail(Call::kCheckWritable, EROFS, 1);
  const RootPlan plan = plan_root(place.disk, place.inputs);
  CHECK(plan.writable == place.fallback());
  CHECK(plan.fallback);
  CHECK(plan.role == TrustRole::kDefaultRoot);
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
    place.inputs.trust.uid = geteuid() + 1;
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
