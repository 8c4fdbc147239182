#include <filesystem>

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/store.hpp"
#include "tests/cache/child.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

// The group-shared mode: whatever the umask, whoever is in the root's group can use, replace and
// remove everything in it.

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;

// Sets the process's umask for the life of a test.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(umask(mask)) {}
  ~Umask() { umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

mode_t mode_of(const std::string& path) {
  struct stat raw;
  REQUIRE(lstat(path.c_str(), &raw) == 0);
  return raw.st_mode & 07777;
}

StoreOptions shared_at(const std::string& root, LogLines& log,
                       std::shared_ptr<FileSystem> disk = nullptr) {
  StoreOptions options = options_at(root, log, std::move(disk));
  options.root.trust.group_shared = true;
  return options;
}

// Leaves one of everything: an entry, a lock, a quarantined file and an unfinished one.
void use(const std::string& root, LogLines& log) {
  auto disk = std::make_shared<FaultyFileSystem>();
  Store store(shared_at(root, log, disk));
  const Entry kept = sample_entry();
  const Entry rejected = sample_entry(sample_source("sm_90a", "rejected"));
  {
    const CompileLock lock = store.lock(kept.source, kept.toolchain);
    CHECK(lock.held());
    REQUIRE(store.publish(kept));
  }
  REQUIRE(store.publish(rejected));
  store.reject(*find(store, rejected.source, &rejected.toolchain), "the test says so");
  disk->fail(Call::kRemove, EIO);  // So that the unfinished file stays.
  disk->die_after(10);
  CHECK_FALSE(store.publish(sample_entry(sample_source("sm_90a", "unfinished"))));
}

}  // namespace

TEST_CASE(
    "In the group-shared mode all is the group's to write, whatever the umask (field report 38)") {
  const kiln::test::TempDir dir;
  const mode_t mask = GENERATE(values<mode_t>({0, 022, 077, 0777}));
  const Umask umask(mask);
  LogLines log;
  const std::string root = dir.str("above/root");
  if (mask == 0777 && geteuid() != 0) {
    WARN("skipped: only root can use folders without any permission");
    return;
  }
  use(root, log);
  int directories = 0;
  int files = 0;
  for (const auto& item : fs::recursive_directory_iterator(dir.str())) {
    INFO(item.path().string());
    if (item.is_directory()) {
      CHECK(mode_of(item.path().string()) == 02770);
      ++directories;
    } else {
      CHECK(mode_of(item.path().string()) == 0660);
      ++files;
    }
  }
  CHECK(directories == 8);  // Above, root, v1, tmp, quarantine, locks, target, toolchain.
  CHECK(files == 4);
}

TEST_CASE("A folder whose maker died before giving it to the group is given to it later") {
  const kiln::test::TempDir dir;
  const Umask umask(077);
  LogLines log;
  auto disk = std::make_shared<FaultyFileSystem>();
  Store store(shared_at(dir.str("root"), log, disk));
  disk->fail(Call::kSetMode, EIO, 3);  // The root, v1 and then tmp.
  CHECK_FALSE(store.publish(sample_entry()));
  CHECK((mode_of(dir.str("root/v1/tmp")) & 0777) == 0700);
  REQUIRE(store.publish(sample_entry()));
  CHECK(mode_of(dir.str("root/v1/tmp")) == 02770);
}

TEST_CASE(
    "The mode of a root that is there is left alone, in the group-shared mode too (field report "
    "39)") {
  const kiln::test::TempDir dir;
  LogLines log;
  fs::create_directory(dir.str("root"));
  const mode_t mode = GENERATE(values<mode_t>({0700, 0755, 0770, 02770, 03770}));
  REQUIRE(chmod(dir.str("root").c_str(), mode) == 0);
  use(dir.str("root"), log);
  CHECK(mode_of(dir.str("root")) == mode);
}

TEST_CASE("Two users of a group share a root: each hits, replaces and clears what the other made") {
  if (geteuid() != 0) {
    WARN("skipped: changing the user needs root");
    return;
  }
  const kiln::test::TempDir dir;
  constexpr gid_t kTeam = 70003;
  const std::string root = dir.str("root");
  REQUIRE(chmod(dir.str().c_str(), 0755) == 0);
  fs::create_directory(root);
  REQUIRE(chown(root.c_str(), 70001, kTeam) == 0);
  REQUIRE(chmod(root.c_str(), 02770) == 0);
  const auto as_member = [&](uid_t uid, const std::function<std::string(Store&)>& body) {
    return in_child([&]() -> std::string {
      umask(077);
      if (setgroups(1, &kTeam) != 0 || setgid(uid) != 0 || setuid(uid) != 0) {
        return "cannot become another user";
      }
      LogLines log;
      Store store(shared_at(root, log));
      const std::string problem = body(store);
      return log.lines().empty() ? problem : problem + log.text();
    });
  };
  const Entry first = sample_entry();
  const Entry second = sample_entry(sample_source("sm_90a", "b"));
  const auto publish = [](Store& store, const Entry& entry) -> std::string {
    const CompileLock lock = store.lock(entry.source, entry.toolchain);
    const Status status = store.publish(entry);
    return !lock.held() ? "no lock" : status ? "" : status.error().message;
  };
  CHECK(as_member(70001, [&](Store& store) { return publish(store, first); }) == "");
  CHECK(as_member(70002, [&](Store& store) -> std::string {
          if (!find(store, first.source, &first.toolchain)) {
            return "the other's entry is a miss";
          }
          return publish(store, first) + publish(store, second);
        }) == "");
  CHECK(as_member(70001, [&](Store& store) -> std::string {
          if (!find(store, second.source, &second.toolchain)) {
            return "the other's entry is a miss";
          }
          return store.clear() == std::uint64_t{2} ? "" : "not cleared";
        }) == "");
}

}  // namespace kiln::cache
