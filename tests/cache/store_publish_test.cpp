#include <cerrno>
#include <filesystem>

#include <sys/stat.h>

#include "cache/quarantine.hpp"
#include "cache/store.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;

struct Place {
  std::string root() const { return dir.str("root"); }
  StoreOptions options() { return options_at(root(), log, disk); }
  std::vector<std::string> quarantined() const { return files_below(root() + "/v1/quarantine"); }
  std::vector<std::string> temporary() const { return files_below(root() + "/v1/tmp"); }

  kiln::test::TempDir dir;
  LogLines log;
  std::shared_ptr<FaultyFileSystem> disk = std::make_shared<FaultyFileSystem>();
};

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

}  // namespace

TEST_CASE("Publishing leaves the entry and nothing else") {
  Place at;
  Store store(at.options());
  const Entry entry = sample_entry();
  REQUIRE(store.publish(entry));
  CHECK(files_below(at.root()) == std::vector<std::string>{entry_path(at.root(), entry)});
}

TEST_CASE("Publishing syncs the file before the rename and its folder after") {
  Place at;
  Store store(at.options());
  REQUIRE(store.publish(sample_entry()));
  CHECK(at.disk->calls(Call::kSync) == 2);
  CHECK(at.disk->calls(Call::kRename) == 1);
}

TEST_CASE("Two publishes of one entry, by any two stores, give the same bytes") {
  Place a;
  Place b;
  const Entry entry = sample_entry();
  REQUIRE(Store(a.options()).publish(entry));
  REQUIRE(Store(b.options()).publish(entry));
  const std::string bytes = read_bytes(entry_path(a.root(), entry));
  CHECK(bytes == read_bytes(entry_path(b.root(), entry)));
  REQUIRE(Store(a.options()).publish(entry));
  CHECK(bytes == read_bytes(entry_path(a.root(), entry)));
}

TEST_CASE("An entry that no lookup could accept is not published") {
  Place at;
  Store store(at.options());
  Entry entry = sample_entry();
  SECTION("without an image") {
    entry.image = {};
  }
  SECTION("without a symbol") {
    entry.symbol.clear();
  }
  SECTION("for a target that leaves the root") {
    entry.source.target = "../../x";
  }
  SECTION("with a wrong source digest") {
    entry.source.digest.low ^= 1;
  }
  SECTION("with a wrong toolchain digest") {
    entry.toolchain.digest.low ^= 1;
  }
  const Status status = store.publish(entry);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == ErrorCode::kInvalidArgument);
  CHECK(files_below(at.dir.str()).empty());
}

TEST_CASE(
    "A default root is created private, a named one by the umask and not writable by others") {
  Place at;
  const Entry entry = sample_entry();
  const Umask mask(0);
  SECTION("default") {
    StoreOptions options = at.options();
    options.root.option = "";
    options.root.home = at.dir.str("home");
    REQUIRE(Store(options).publish(entry));
    const std::string root = at.dir.str("home/.cache/kiln");
    CHECK(mode_of(root) == 0700);
    CHECK(mode_of(at.dir.str("home/.cache")) == 0700);
    CHECK(mode_of(root + "/v1/sm_90a") == 0700);
    CHECK(mode_of(entry_path(root, entry)) == 0600);
  }
  SECTION("named") {
    REQUIRE(Store(at.options()).publish(entry));
    CHECK(mode_of(at.root()) == 0755);
    CHECK(mode_of(at.root() + "/v1/sm_90a") == 0755);
    CHECK(mode_of(at.root() + "/v1/tmp") == 0700);
    CHECK(mode_of(entry_path(at.root(), entry)) == 0644);
  }
  SECTION("named, under a strict umask") {
    const Umask strict(077);
    REQUIRE(Store(at.options()).publish(entry));
    CHECK(mode_of(at.root()) == 0700);
    CHECK(mode_of(entry_path(at.root(), entry)) == 0600);
  }
}

TEST_CASE("An existing root's mode is left alone") {
  Place at;
  fs::create_directory(at.root());
  REQUIRE(chmod(at.root().c_str(), 01770) == 0);
  REQUIRE(Store(at.options()).publish(sample_entry()));
  CHECK(mode_of(at.root()) == 01770);
}

TEST_CASE("A cache removed under a running store is built again") {
  Place at;
  Store store(at.options());
  const Entry entry = sample_entry();
  REQUIRE(store.publish(entry));
  fs::remove_all(at.root());
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  REQUIRE(store.publish(entry));
  CHECK(find(store, entry.source, &entry.toolchain));
  CHECK(at.log.lines().empty());
}

TEST_CASE(
    "An entry truncated to any length is a miss, goes to quarantine and is replaced (field report "
    "64)") {
  Place at;
  at.disk->skip_sync();
  Store store(at.options());
  const Entry entry = sample_entry(sample_source(), sample_toolchain(), 40);
  const std::string bytes = encode_entry(entry);
  const std::string path = entry_path(at.root(), entry);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(path, bytes.substr(0, size));
    const bool missed = !find(store, entry.source, &entry.toolchain) && !fs::exists(path);
    const bool replaced = store.publish(entry) && find(store, entry.source, &entry.toolchain);
    if (!missed || !replaced) {
      FAIL("truncated to " << size);
    }
  }
  CHECK(at.quarantined().size() == std::min(bytes.size(), kMaxQuarantined));
  CHECK(store.counters().rejected == bytes.size());
  CHECK(at.log.lines().size() == 1);  // One file, named once.
  CHECK(at.log.text().find("quarantine") != std::string::npos);
}

TEST_CASE("An entry with any byte flipped is a miss, goes to quarantine and is replaced") {
  Place at;
  at.disk->skip_sync();
  Store store(at.options());
  const Entry entry = sample_entry(sample_source(), sample_toolchain(), 40);
  const std::string bytes = encode_entry(entry);
  const std::string path = entry_path(at.root(), entry);
  for (std::size_t flipped = 0; flipped < bytes.size(); ++flipped) {
    std::string damaged = bytes;
    damaged[flipped] = static_cast<char>(damaged[flipped] ^ 0x10);
    write_bytes(path, damaged);
    const bool missed = !find(store, entry.source, &entry.toolchain) && !fs::exists(path);
    const bool replaced = store.publish(entry) && find(store, entry.source, &entry.toolchain);
    if (!missed || !replaced) {
      FAIL("byte " << flipped);
    }
  }
}

TEST_CASE("A bad entry hides no good one of another toolchain, nor of a lower layer") {
  Place at;
  const SourceKey source = sample_source();
  const Entry newest = sample_entry(source, sample_toolchain(13, 1));
  const Entry older = sample_entry(source, sample_toolchain(13, 0));
  write_bytes(entry_path(at.root(), newest), "bad");
  StoreOptions options = at.options();
  SECTION("toolchain") {
    write_bytes(entry_path(at.root(), older), encode_entry(older));
  }
  SECTION("layer") {
    options.read_only_layers = {at.dir.str("layer")};
    write_bytes(entry_path(at.dir.str("layer"), older), encode_entry(older));
  }
  Store store(options);
  CHECK(find(store, source)->entry.toolchain.minor == 0);
}

TEST_CASE("A bad entry of a read-only layer stays there, is skipped and logged once") {
  Place at;
  const Entry entry = sample_entry();
  const std::string path = entry_path(at.dir.str("layer"), entry);
  write_bytes(path, "bad");
  StoreOptions options = at.options();
  options.read_only_layers = {at.dir.str("layer")};
  Store store(options);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  }
  CHECK(at.disk->successful_opens() == 1);
  CHECK(read_bytes(path) == "bad");
  CHECK(at.log.lines().size() == 1);
  CHECK(at.disk->writing_calls() == 0);
}

TEST_CASE("A rejected hit is not given again until it is published anew") {
  Place at;
  const Entry entry = sample_entry();
  StoreOptions options = at.options();
  const bool in_root = GENERATE(true, false);
  const std::string home = in_root ? at.root() : at.dir.str("layer");
  options.read_only_layers = {at.dir.str("layer")};
  write_bytes(entry_path(home, entry), encode_entry(entry));
  Store store(options);
  const auto hit = find(store, entry.source, &entry.toolchain);
  REQUIRE(hit);
  store.reject(*hit, "the driver said no");
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  CHECK(at.log.lines().size() == 1);
  CHECK(at.log.text().find("the driver said no") != std::string::npos);
  CHECK(at.quarantined().size() == (in_root ? 1 : 0));
  CHECK(store.counters().rejected == 1);
  REQUIRE(store.publish(entry));
  CHECK(find(store, entry.source, &entry.toolchain)->path == entry_path(at.root(), entry));
}

TEST_CASE("Rejecting spares a newer file that took the rejected one's name") {
  Place at;
  const Entry entry = sample_entry();
  Store store(at.options());
  REQUIRE(store.publish(entry));
  const auto hit = find(store, entry.source, &entry.toolchain);
  REQUIRE(hit);
  // Another process publishes; the old file is kept, so that its inode is not used again.
  fs::create_hard_link(hit->path, at.dir.str("old"));
  REQUIRE(Store(at.options()).publish(entry));
  store.reject(*hit, "the driver said no");
  CHECK(find(store, entry.source, &entry.toolchain));
  CHECK(at.quarantined().empty());
}

TEST_CASE("A bad entry that cannot be moved is skipped, and replaced by the next publish") {
  Place at;
  const Entry entry = sample_entry();
  write_bytes(entry_path(at.root(), entry), "bad");
  Store store(at.options());
  at.disk->fail(Call::kRename, EACCES, 1);
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  const int opens = at.disk->successful_opens();
  CHECK_FALSE(find(store, entry.source, &entry.toolchain));
  CHECK(at.disk->successful_opens() == opens);
  CHECK(at.log.lines().size() == 1);
  REQUIRE(store.publish(entry));
  CHECK(find(store, entry.source, &entry.toolchain));
}

TEST_CASE(
    "A root that is named and cannot be made leaves kernels in memory, with one warning (field "
    "report 32)") {
  Place at;
  write_bytes(at.dir.str("file"), "x");
  Store store(options_at(at.dir.str("file/root"), at.log, at.disk));
  CHECK(store.writable_root().empty());
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(find(store, sample_source()));
    const Status status = store.publish(sample_entry());
    REQUIRE_FALSE(status);
    CHECK(status.error().message.find("Not a directory") != std::string::npos);
  }
  CHECK(store.counters().write_failures == 3);
  REQUIRE(at.log.lines().size() == 1);
  CHECK(at.log.text().find("KILN_CACHE_DIR") != std::string::npos);
  CHECK(at.disk->writing_calls() == 0);
}

TEST_CASE(
    "A full or read-only disk turns writes off with one warning, and reading goes on (field report "
    "72)") {
  Place at;
  const int error = GENERATE(ENOSPC, EDQUOT, EROFS, EACCES, EPERM);
  const Call call = GENERATE(Call::kMakeDirectory, Call::kCreate, Call::kWrite, Call::kRename);
  const Entry kept = sample_entry(sample_source("sm_80"));
  write_bytes(entry_path(at.root(), kept), encode_entry(kept));
  Store store(at.options());
  at.disk->fail(call, error, 1);
  CHECK_FALSE(store.publish(sample_entry()));
  CHECK(at.disk->faults() == 1);
  CHECK(at.temporary().empty());
  at.disk->reset_counts();
  CHECK_FALSE(store.publish(sample_entry()));
  CHECK(at.disk->writing_calls() == 0);
  CHECK(find(store, kept.source, &kept.toolchain));
  CHECK(at.log.lines().size() == 1);
  CHECK(store.counters().write_failures == 2);
}

TEST_CASE("A passing failure to write is one warning, and the next publish tries again") {
  Place at;
  const int error = GENERATE(EIO, ESTALE, EMFILE);
  Store store(at.options());
  at.disk->fail(Call::kCreate, error);
  CHECK_FALSE(store.publish(sample_entry()));
  CHECK_FALSE(store.publish(sample_entry()));
  CHECK(at.log.lines().size() == 1);
  at.disk->heal();
  CHECK(store.publish(sample_entry()));
}

TEST_CASE("A folder of the cache that is a link is not written through") {
  Place at;
  fs::create_directories(at.root() + "/v1");
  fs::create_directory(at.dir.str("elsewhere"));
  fs::create_directory_symlink(at.dir.str("elsewhere"),
                               at.root() + "/v1/" + GENERATE("tmp", "sm_90a"));
  Store store(at.options());
  CHECK_FALSE(store.publish(sample_entry()));
  CHECK(files_below(at.dir.str("elsewhere")).empty());
  CHECK(fs::is_empty(at.dir.str("elsewhere")));
  CHECK(at.log.lines().size() == 1);
}

TEST_CASE("The root's description says where, why and whether it is written") {
  Place at;
  Store store(at.options());
  CHECK(store.root_description().find(at.root()) != std::string::npos);
  CHECK(store.root_description().find("as set by the caller") != std::string::npos);
  CHECK(store.root_description().find("writable") != std::string::npos);
}

}  // namespace kiln::cache
