#include "runtime/worker/find_worker.hpp"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::runtime {
namespace {

namespace fs = std::filesystem;

/// Makes a program and the folders above it.
std::string plant(const test::TempDir& dir, const std::string& name) {
  const fs::path path = dir.path() / name;
  fs::create_directories(path.parent_path());
  std::ofstream(path) << "#!/bin/sh\n";
  fs::permissions(path, fs::perms::owner_all);
  return path.string();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE(
    "The worker is found beside the library or in the folders where it is installed or built") {
  for (const char* place :
       {"usr/lib/kiln-compile-worker", "usr/libexec/kiln/kiln-compile-worker",
        "usr/lib/kiln/kiln-compile-worker", "libexec/kiln/kiln-compile-worker"}) {
    const test::TempDir dir;
    fs::create_directories(dir.path() / "usr/lib");
    const std::string worker = plant(dir, place);
    CAPTURE(worker);
    const auto found = find_worker({"", dir.str("usr/lib/libengine.so")});
    REQUIRE(found);
    CHECK(*found == worker);
  }
  const test::TempDir build;
  const std::string worker = plant(build, "libexec/kiln/kiln-compile-worker");
  fs::create_directories(build.path() / "tests/runtime/worker");
  CHECK(find_worker({"", build.str("tests/runtime/worker/test")}).value() == worker);
}

TEST_CASE("A worker that is named wins over the search") {
  const test::TempDir dir;
  const std::string named = plant(dir, "named/worker");
  const std::string beside = plant(dir, "kiln-compile-worker");
  const std::string code = dir.str("engine");
  CHECK(find_worker({named, code}).value() == named);
  CHECK(find_worker({"", code}).value() == beside);
}

TEST_CASE("A setting that cannot be run is an error, though there is a worker beside Kiln") {
  const test::TempDir dir;
  plant(dir, "kiln-compile-worker");
  std::ofstream(dir.path() / "data") << "no program\n";
  for (const std::string& bad : {dir.str("absent"), dir.str(), dir.str("data")}) {
    const auto found = find_worker({bad, dir.str("engine")});
    REQUIRE_FALSE(found);
    CHECK(contains(found.error().message, "is set to " + bad));
    CHECK(contains(found.error().message, "KILN_COMPILE_WORKER"));
  }
}

TEST_CASE("A failure names every place searched and why it was not that") {
  const test::TempDir dir;
  fs::create_directories(dir.path() / "usr/lib");
  fs::create_directories(dir.path() / "usr/lib/kiln/kiln-compile-worker");
  const auto missing = find_worker({"", dir.str("usr/lib/libengine.so")});
  REQUIRE_FALSE(missing);
  for (const char* place : {"usr/lib/kiln-compile-worker: there is no such file",
                            "usr/libexec/kiln/kiln-compile-worker: there is no such file",
                            "usr/lib/kiln/kiln-compile-worker: it is no file",
                            "libexec/kiln/kiln-compile-worker: there is no such file"}) {
    CHECK(contains(missing.error().message, dir.str(place)));
  }
  CHECK(contains(find_worker({}).error().message, "it is not known where Kiln lies"));
}

TEST_CASE("The file of this code is this test, whatever it was started as") {
  CHECK(file_of_this_code() == fs::read_symlink("/proc/self/exe").string());
  CHECK(fs::is_regular_file(file_of_this_code()));
}

}  // namespace
}  // namespace kiln::runtime
