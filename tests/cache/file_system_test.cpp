#include "cache/file_system.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
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
using Lookup = PosixFileSystem::Lookup;

template <class T>
int error_of(const Io<T>& result) {
  return result ? 0 : result.error();
}

}  // namespace

TEST_CASE("No call follows a symbolic link anywhere on its path (field report 151)") {
  const kiln::test::TempDir dir;
  const Lookup lookup = GENERATE(Lookup::kKernel, Lookup::kWalk);
  PosixFileSystem disk(lookup);
  const std::string real = *disk.canonical(dir.str());
  write_bytes(real + "/folder/file", "x");
  fs::create_directory(real + "/folder/empty");
  fs::create_symlink(real + "/folder", real + "/link");
  fs::create_symlink(real + "/folder/file", real + "/file_link");

  CHECK(error_of(disk.open_for_read(real + "/folder/file")) == 0);
  CHECK(error_of(disk.open_for_read(real + "/link/file")) == ELOOP);
  CHECK(error_of(disk.open_for_read(real + "/file_link")) == ELOOP);
  CHECK(error_of(disk.create(real + "/link/new", 0600)) == ELOOP);
  CHECK(error_of(disk.open_lock(real + "/link/file", 0600)) == ELOOP);
  CHECK(error_of(disk.open_lock(real + "/file_link", 0600)) == ELOOP);
  CHECK(error_of(disk.open_directory(real + "/link")) == ELOOP);
  CHECK(error_of(disk.list(real + "/link")) == ELOOP);
  CHECK(error_of(disk.status(real + "/link/file")) == ELOOP);
  CHECK(error_of(disk.check_writable(real + "/link")) == ELOOP);
  CHECK(error_of(disk.make_directory(real + "/link/new", 0700)) == ELOOP);
  CHECK(error_of(disk.touch(real + "/link/file")) == ELOOP);
  CHECK(error_of(disk.rename(real + "/link/file", real + "/stolen")) == ELOOP);
  CHECK(error_of(disk.rename(real + "/folder/file", real + "/link/moved")) == ELOOP);
  CHECK(error_of(disk.remove(real + "/link/file")) == ELOOP);
  CHECK(error_of(disk.remove_directory(real + "/link/empty")) == ELOOP);
  CHECK(disk.status(real + "/link")->kind == FileStatus::Kind::kSymlink);
  const auto before = fs::last_write_time(real + "/folder/file");
  CHECK(disk.touch(real + "/file_link"));  // The link itself.
  CHECK(fs::last_write_time(real + "/folder/file") == before);
  CHECK(read_bytes(real + "/folder/file") == "x");
  CHECK(fs::exists(real + "/folder/empty"));
}

TEST_CASE("Creating never opens what is there") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk(GENERATE(Lookup::kKernel, Lookup::kWalk));
  const std::string real = *disk.canonical(dir.str());
  fs::create_symlink(real + "/target", real + "/dangling");
  write_bytes(real + "/file", "x");
  CHECK(error_of(disk.create(real + "/file", 0600)) == EEXIST);
  CHECK(error_of(disk.create(real + "/dangling", 0600)) != 0);
  CHECK_FALSE(fs::exists(real + "/target"));
}

TEST_CASE("Relative paths are refused") {
  PosixFileSystem disk;
  CHECK(error_of(disk.open_for_read("file")) == EINVAL);
  CHECK(error_of(disk.create("file", 0600)) == EINVAL);
  CHECK(error_of(disk.list(".")) == EINVAL);
  CHECK(error_of(disk.canonical("here")) == EINVAL);
}

TEST_CASE("The disk's calls do what they say, by either way of lookup") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk(GENERATE(Lookup::kKernel, Lookup::kWalk));
  const std::string real = *disk.canonical(dir.str());
  REQUIRE(disk.make_directory(real + "/a", 0700));
  CHECK(error_of(disk.make_directory(real + "/a", 0700)) == EEXIST);
  {
    const OpenFile file(disk, *disk.create(real + "/a/new", 0640));
    CHECK(disk.write(file.get(), "hello") == std::size_t{5});
    CHECK(disk.sync(file.get()));
  }
  CHECK(disk.rename(real + "/a/new", real + "/a/final"));
  CHECK(read_file(disk, real + "/a/final", 5)->bytes == "hello");
  CHECK(disk.list(real + "/a") == std::vector<std::string>{"final"});
  const auto status = disk.status(real + "/a/final");
  REQUIRE(status);
  CHECK(status->kind == FileStatus::Kind::kFile);
  CHECK(status->size == 5);
  CHECK(status->uid == geteuid());
  CHECK(status->gid == getegid());
  CHECK(status->mode == 0640);
  CHECK(status->allocated >= 5);
  fs::last_write_time(real + "/a/final", fs::file_time_type::clock::now() - std::chrono::hours(9));
  CHECK(disk.status(real + "/a/final")->modified < disk.now() - std::chrono::hours(8));
  CHECK(disk.touch(real + "/a/final"));
  CHECK(disk.status(real + "/a/final")->modified > disk.now() - std::chrono::hours(1));
  {
    const OpenFile folder(disk, *disk.open_directory(real + "/a"));
    CHECK(disk.set_mode(folder.get(), 02770));
    CHECK(disk.status(real + "/a")->mode == 02770);
  }
  CHECK(error_of(disk.remove_directory(real + "/a")) == ENOTEMPTY);
  CHECK(disk.remove(real + "/a/final"));
  CHECK(disk.remove_directory(real + "/a"));
  CHECK(error_of(disk.status(real + "/a")) == ENOENT);
  CHECK(disk.check_writable(real));
  CHECK(disk.status("/")->kind == FileStatus::Kind::kDirectory);
}

TEST_CASE("A lock belongs to its handle, and its file is read and written in place") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk(GENERATE(Lookup::kKernel, Lookup::kWalk));
  const std::string path = *disk.canonical(dir.str()) + "/lock";
  OpenFile first(disk, *disk.open_lock(path, 0640));
  const OpenFile second(disk, *disk.open_lock(path, 0600));
  CHECK(disk.status(path)->mode == 0640);
  CHECK(disk.try_lock(first.get()));
  CHECK(error_of(disk.try_lock(second.get())) == EWOULDBLOCK);
  CHECK(disk.unlock(first.get()));
  CHECK(disk.try_lock(second.get()));
  CHECK(error_of(disk.try_lock(first.get())) == EWOULDBLOCK);

  CHECK(disk.write_at(first.get(), "0123", 0) == std::size_t{4});
  CHECK(disk.write_at(first.get(), "x", 1) == std::size_t{1});
  char buffer[8] = {};
  CHECK(disk.read_at(second.get(), buffer, sizeof buffer, 1) == std::size_t{3});
  CHECK(std::string(buffer) == "x23");
  CHECK(disk.read_at(second.get(), buffer, sizeof buffer, 4) == std::size_t{0});
}

TEST_CASE("A file's time is the file system's") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const std::string path = *disk.canonical(dir.str()) + "/file";
  write_bytes(path, "x");
  const timespec times[2] = {{0, UTIME_OMIT}, {1000, 7}};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  CHECK(disk.status(path)->modified == std::chrono::nanoseconds(1'000'000'000'007));
}

TEST_CASE("A canonical path has the links of its existing part resolved") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const std::string real = *disk.canonical(dir.str());
  fs::create_directory(real + "/folder");
  fs::create_symlink(real + "/folder", real + "/link");
  CHECK(disk.canonical(real + "/link/not/yet/") == real + "/folder/not/yet");
  CHECK(disk.canonical(real + "/folder/../link") == real + "/folder");
  CHECK(disk.canonical("/") == std::string("/"));
}

TEST_CASE("Only a regular file of bounded size is read whole") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const std::string real = *disk.canonical(dir.str());
  write_bytes(real + "/file", "12345");
  REQUIRE(mkfifo((real + "/pipe").c_str(), 0600) == 0);
  CHECK(read_file(disk, real + "/file", 5)->bytes == "12345");
  CHECK(error_of(read_file(disk, real + "/file", 4)) == EFBIG);
  CHECK(error_of(read_file(disk, real + "/pipe", 5)) == EINVAL);  // And does not hang.
  CHECK(error_of(read_file(disk, real, 5)) == EINVAL);
  CHECK(error_of(read_file(disk, real + "/absent", 5)) == ENOENT);
}

TEST_CASE("An open file closes once and reports it") {
  const kiln::test::TempDir dir;
  FaultyFileSystem disk;
  const std::string real = *disk.canonical(dir.str());
  {
    OpenFile file(disk, *disk.create(real + "/file", 0600));
    OpenFile moved(std::move(file));
    disk.fail(Call::kClose, EIO, 1);
    CHECK(error_of(moved.close()) == EIO);
    CHECK(error_of(moved.close()) == 0);
  }
  CHECK(disk.calls(Call::kClose) == 1);
}

TEST_CASE("The parent of a path in the top folder is the top folder") {
  CHECK(parent_path("/a/b") == "/a");
  CHECK(parent_path("/a") == "/");
  CHECK(parent_path("/") == "/");
}

TEST_CASE("An error number reads as words and as its name") {
  CHECK(errno_text(ENOSPC) == "No space left on device (ENOSPC)");
}

}  // namespace kiln::cache
