#include "cache/temporaries.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "cache/store.hpp"
#include "cache/writer.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A root with a temporary folder in which files of any age lie.
struct Place {
  Place() { fs::create_directories(layout.temporary()); }

  std::string put(const std::string& name, std::chrono::seconds age) const {
    const std::string path = layout.temporary() + "/" + name;
    write_bytes(path, "half an entry");
    fs::last_write_time(path, fs::file_time_type::clock::now() - age);
    return path;
  }
  std::string put(std::chrono::seconds age) const {
    return put(temporary_name(this_writer()), age);
  }
  std::uint64_t collect() { return collect_temporaries(*disk, layout); }
  std::vector<std::string> left() const { return files_below(root); }

  kiln::test::TempDir dir;
  LogLines log;
  std::shared_ptr<FaultyFileSystem> disk = std::make_shared<FaultyFileSystem>();
  std::string root = *disk->canonical(dir.str()) + "/root";
  Layout layout{root};
};

}  // namespace

TEST_CASE("Temporary files over an hour old are collected, and younger ones are left") {
  Place at;
  at.put(3601s + 60s);
  at.put(48h);
  const std::string young = at.put(3600s - 60s);
  const std::string newest = at.put(0s);
  CHECK(at.collect() == 2);
  auto left = std::vector{young, newest};
  std::sort(left.begin(), left.end());
  CHECK(at.left() == left);
}

TEST_CASE("Age is by the file system's clock, whatever this machine's says") {
  Place at;
  at.put(2h);
  const std::string young = at.put(0s);
  at.disk->shift_clock(GENERATE(-240h, -2h, 2h, 240h));
  CHECK(at.collect() == 1);
  CHECK(at.left() == std::vector{young});
}

TEST_CASE("A temporary file from the future is left, unless it is from a clock that was wrong") {
  Place at;
  at.put(-23h);
  CHECK(at.collect() == 0);
  CHECK(at.left().size() == 1);
  at.put(-25h);
  CHECK(at.collect() == 1);
  CHECK(at.left().size() == 1);
}

TEST_CASE("Only plain files with a temporary name are collected") {
  Place at;
  at.put("notes.txt", 48h);
  at.put("x.tmp", 48h);
  const std::string victim = at.dir.str("victim");
  write_bytes(victim, "x");
  fs::last_write_time(victim, fs::file_time_type::clock::now() - 48h);
  fs::create_symlink(victim, at.layout.temporary() + "/" + temporary_name(this_writer()));
  fs::create_directory(at.layout.temporary() + "/" + temporary_name(this_writer()));
  CHECK(at.collect() == 0);
  CHECK(at.left().size() == 3);
  CHECK(fs::exists(victim));
}

TEST_CASE("Without temporary files a collection writes nothing") {
  Place at;
  at.put("notes.txt", 48h);
  CHECK(at.collect() == 0);
  CHECK(at.disk->writing_calls() == 0);
  fs::remove_all(at.root);
  CHECK(at.collect() == 0);
  CHECK(at.left().empty());
}

TEST_CASE(
    "A collection that fails anywhere leaves its files to the next one, and none of its own") {
  Place at;
  at.put(48h);
  at.put(48h);
  const Call call = GENERATE(Call::kList, Call::kCreate, Call::kSync, Call::kClose,
                             Call::kPathStatus, Call::kRemove);
  // The first file removed is the one that told the time; that would stay for an hour.
  at.disk->fail(call, GENERATE(EIO, ENOENT, EACCES, ESTALE), call == Call::kRemove ? 2 : 1);
  const std::uint64_t removed = at.collect();
  CHECK(at.disk->faults() == 1);
  CHECK(at.left().size() == 2 - removed);
  at.collect();
  CHECK(at.left().empty());
}

TEST_CASE("A store collects at its first publish, and only then") {
  Place at;
  Store store(options_at(at.root, at.log, at.disk));
  const std::string dead = at.put(48h);
  const Entry entry = sample_entry();
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  CHECK(fs::exists(dead));
  REQUIRE(store.publish(entry));
  CHECK_FALSE(fs::exists(dead));
  CHECK(files_below(at.layout.temporary()).empty());
  const std::string later = at.put(48h);
  REQUIRE(store.publish(entry));
  CHECK(fs::exists(later));
  CHECK(at.log.lines().empty());
}

TEST_CASE("A disk too full to write to is collected all the same") {
  Place at;
  at.put(48h);
  Store store(options_at(at.root, at.log, at.disk));
  at.disk->fail(Call::kWrite, ENOSPC);
  CHECK_FALSE(store.publish(sample_entry()));
  CHECK(at.left().empty());
}

TEST_CASE("A writer whose temporary file was collected writes it again") {
  Place at;
  Store store(options_at(at.root, at.log, at.disk));
  at.disk->fail(Call::kRename, ENOENT, 1);
  CHECK(store.publish(sample_entry()));
  CHECK(at.disk->faults() == 1);
}

}  // namespace kiln::cache
