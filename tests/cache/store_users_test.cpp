#include <filesystem>
#include <random>

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/store.hpp"
#include "tests/cache/child.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

// One user builds a cache, another one uses it. Root is asked by no permission bit, so the second
// user is a child process under a random uid that no user database knows.

namespace kiln::cache {
namespace {

using namespace test;
namespace fs = std::filesystem;

constexpr int kKernels = 20;

Entry kernel(int index) {
  return sample_entry(sample_source("sm_90a", std::to_string(index)));
}

uid_t random_uid() {
  std::random_device device;
  return 100000 + device() % 1000000000;
}

bool cannot_change_user() {
  if (geteuid() == 0) {
    return false;
  }
  WARN("skipped: changing the user needs root");
  return true;
}

// A directory that every user can reach, with a cache built by this one.
struct Built {
  Built() {
    REQUIRE(chmod(dir.str().c_str(), 0755) == 0);
    REQUIRE(mkdir(dir.str("tmp").c_str(), 0700) == 0);
    REQUIRE(chmod(dir.str("tmp").c_str(), 01777) == 0);
    LogLines log;
    Store store(options_at(root(), log));
    for (int i = 0; i < kKernels; ++i) {
      REQUIRE(store.publish(kernel(i)));
    }
  }
  std::string root() const { return dir.str("home/.cache/kiln"); }
  kiln::test::TempDir dir;
};

std::string expect_hits(Store& store, const ToolchainKey* toolchain) {
  for (int i = 0; i < kKernels; ++i) {
    if (!find(store, kernel(i).source, toolchain)) {
      return "kernel " + std::to_string(i) + " is a miss";
    }
  }
  return store.counters().hits == kKernels ? "" : "the counter is off";
}

std::string expect(bool condition, const std::string& problem) {
  return condition ? "" : problem;
}

}  // namespace

TEST_CASE(
    "A prebuilt root serves a random user every kernel, with one warning and nothing written "
    "(field report 29)") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  const bool with_compiler = GENERATE(true, false);
  const std::string problem = as_user(random_uid(), [&]() -> std::string {
    LogLines log;
    auto disk = std::make_shared<FaultyFileSystem>();
    StoreOptions options = options_at("", log, disk);
    options.root.kiln_cache_dir = built.root();
    Store store(options);
    const ToolchainKey toolchain = sample_toolchain();
    std::string found = expect_hits(store, with_compiler ? &toolchain : nullptr);
    found += expect(log.lines().size() == 1, "not one warning but:\n" + log.text());
    found += expect(log.text().find("KILN_CACHE_DIR") != std::string::npos, "unhelpful warning");
    found += expect(disk->writing_calls() == 0, "something was written");
    found += expect(!store.publish(kernel(kKernels)), "published where it cannot be");
    found += expect(store.writable_root().empty(), "a named root was replaced");
    found += expect(log.lines().size() == 1, "a second warning:\n" + log.text());
    return found;
  });
  CHECK(problem == "");
}

TEST_CASE("A default root of another user is skipped, and kernels go to a private directory") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  const std::string problem = as_user(random_uid(), [&]() -> std::string {
    LogLines log;
    StoreOptions options = options_at("", log);
    options.root.home = built.dir.str("home");
    options.root.tmpdir = built.dir.str("tmp");
    const std::string fallback = fallback_root(options.root);
    Store store(options);
    std::string found = expect(!find(store, kernel(0).source), "a stranger's kernel was served");
    found += expect(!fs::exists(fallback), "the fallback was made without need");
    found += expect(store.publish(kernel(kKernels)).has_value(), "not published: " + log.text());
    const ToolchainKey toolchain = sample_toolchain();
    const auto hit = find(store, kernel(kKernels).source, &toolchain);
    found += expect(hit && hit->path.starts_with(fallback), "not found in the fallback");
    struct stat raw;
    found += expect(stat(fallback.c_str(), &raw) == 0 && (raw.st_mode & 07777) == 0700 &&
                        raw.st_uid == geteuid(),
                    "the fallback is not private");
    found += expect(log.lines().size() == 1, "not one warning but:\n" + log.text());
    return found;
  });
  CHECK(problem == "");
}

TEST_CASE("A named root is used or refused by its owner, its group and its mode") {
  if (cannot_change_user()) {
    return;
  }
  struct Row {
    const char* name;
    uid_t owner;
    gid_t group;
    mode_t mode;
    std::vector<gid_t> groups;  // Of the process beside its own.
    bool group_shared;
    bool allow_world_writable;
    bool reads;
    bool writes;
    std::size_t warnings;
  };
  constexpr uid_t kUser = 70001;
  constexpr uid_t kOther = 70002;
  constexpr gid_t kVolume = 70003;
  const Row row = GENERATE_REF(values<Row>({
      {"one's own", kUser, kUser, 0755, {}, false, false, true, true, 0},
      {"root's, to read", 0, 0, 0755, {}, false, false, true, false, 1},
      {"fsGroup", 0, kVolume, 02775, {kVolume}, false, false, true, true, 1},
      {"fsGroup, shared", 0, kVolume, 02775, {kVolume}, true, false, true, true, 0},
      {"a team's, of another member",
       kOther,
       kVolume,
       02770,
       {kVolume},
       true,
       false,
       true,
       true,
       0},
      {"a group's that one is not in", kUser, kVolume, 0775, {}, false, false, false, false, 1},
      {"another user's", kOther, kOther, 0755, {}, false, false, false, false, 1},
      {"everybody's", kUser, kUser, 0777, {}, false, false, false, false, 1},
      {"everybody's, sticky", 0, 0, 01777, {}, false, false, false, false, 1},
      {"everybody's, agreed to", 0, 0, 01777, {}, false, true, true, true, 1},
  }));
  const Built built;
  // What it holds belongs to its owner, as when the owner had built it.
  for (const auto& item : fs::recursive_directory_iterator(built.root())) {
    REQUIRE(chown(item.path().c_str(), row.owner, row.group) == 0);
    const mode_t bits = item.is_directory() ? row.mode : mode_t{0644};
    REQUIRE(chmod(item.path().c_str(), bits) == 0);
  }
  REQUIRE(chown(built.root().c_str(), row.owner, row.group) == 0);
  REQUIRE(chmod(built.root().c_str(), row.mode) == 0);
  const std::string problem = in_child([&]() -> std::string {
    if (setgroups(row.groups.size(), row.groups.data()) != 0 || setgid(kUser) != 0 ||
        setuid(kUser) != 0) {
      return "cannot become another user";
    }
    LogLines log;
    StoreOptions options = options_at("", log);
    options.root.kiln_cache_dir = built.root();
    options.root.trust.group_shared = row.group_shared;
    options.root.trust.allow_world_writable = row.allow_world_writable;
    Store store(options);
    std::string found = expect(find(store, kernel(0).source).has_value() == row.reads, "reading");
    found += expect(store.publish(kernel(kKernels)).has_value() == row.writes, " writing");
    found += expect(log.lines().size() == row.warnings, " warnings:\n" + log.text());
    const bool named = log.text().find("KILN_CACHE_") != std::string::npos;
    found += expect(named || row.warnings == 0, " an unhelpful warning:\n" + log.text());
    return found;
  });
  INFO(row.name);
  CHECK(problem == "");
}

TEST_CASE("Root uses a root of another user's when told to, with a warning, and not by default") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  REQUIRE(chown(built.root().c_str(), 70002, 70002) == 0);
  LogLines log;
  StoreOptions options = options_at(built.root(), log);
  CHECK(find(*std::make_unique<Store>(options), kernel(0).source));
  CHECK(log.lines().size() == 1);
  options.root.option = "";
  options.root.home = built.dir.str("home");
  options.root.tmpdir = built.dir.str("tmp");
  CHECK_FALSE(find(*std::make_unique<Store>(options), kernel(0).source));
}

TEST_CASE("A read-only layer of another user, or one that everybody can write, is left out") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  const std::string layer = built.root();
  SECTION("another user's") {
    REQUIRE(chown(layer.c_str(), 70002, 70002) == 0);
  }
  SECTION("everybody's") {
    REQUIRE(chmod(layer.c_str(), 01777) == 0);
  }
  LogLines log;
  StoreOptions options = options_at(built.dir.str("own"), log);
  options.read_only_layers = {layer};
  options.root.trust.allow_world_writable = true;  // Is about the root alone.
  Store store(options);
  CHECK_FALSE(find(store, kernel(0).source));
  CHECK(store.list().empty());
  CHECK(log.lines().size() == 1);
  CHECK(log.text().find(layer) != std::string::npos);
  REQUIRE(chown(layer.c_str(), 0, 0) == 0);
  REQUIRE(chmod(layer.c_str(), 0755) == 0);
  CHECK(find(store, kernel(0).source));
}

TEST_CASE(
    "A fallback directory planted by another user is neither read nor written (field reports 35 "
    "and 153)") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  const uid_t victim = random_uid();
  RootInputs inputs;
  inputs.tmpdir = built.dir.str("tmp");
  inputs.trust.uid = victim;
  const std::string planted = fallback_root(inputs);
  const bool before = GENERATE(true, false);
  const auto plant = [&] {
    write_bytes(entry_path(planted, kernel(0)), encode_entry(kernel(0)));
    return chmod(planted.c_str(), 0755) == 0;
  };
  REQUIRE((!before || plant()));
  // When it is planted later, the child must see it only after its store was made: another child of
  // root does it at that moment.
  int go[2];
  int done[2];
  REQUIRE((pipe(go) == 0 && pipe(done) == 0));
  const pid_t planter = fork();
  if (planter == 0) {
    char byte = 0;
    const bool told = read(go[0], &byte, 1) == 1;
    const bool planted_now = told && (before || plant());
    _exit(planted_now && write(done[1], "x", 1) == 1 ? 0 : 1);
  }
  const std::string problem = as_user(victim, [&]() -> std::string {
    LogLines log;
    StoreOptions options = options_at("", log);
    options.root = inputs;
    options.root.trust = TrustPolicy::of_process();
    Store store(options);
    char byte = 0;
    if (write(go[1], "x", 1) != 1 || read(done[0], &byte, 1) != 1) {
      return "no planter";
    }
    std::string found = expect(!find(store, kernel(0).source), "a planted kernel was served");
    found += expect(!store.publish(kernel(1)), "published into a planted directory");
    found += expect(!log.lines().empty(), "nothing was said");
    return found;
  });
  int status = 0;
  waitpid(planter, &status, 0);
  for (const int end : {go[0], go[1], done[0], done[1]}) {
    close(end);
  }
  CHECK(status == 0);
  CHECK(problem == "");
  CHECK(files_below(planted) == std::vector<std::string>{entry_path(planted, kernel(0))});
}

TEST_CASE("A root that another user closed is a miss with one warning") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  const std::string closed = GENERATE("home", "home/.cache/kiln", "home/.cache/kiln/v1/sm_90a");
  REQUIRE(chmod(built.dir.str(closed).c_str(), 0700) == 0);
  const std::string problem = as_user(random_uid(), [&]() -> std::string {
    LogLines log;
    StoreOptions options = options_at(built.root(), log);
    Store store(options);
    const ToolchainKey toolchain = sample_toolchain();
    std::string found = expect(!find(store, kernel(0).source), "a hit behind closed doors");
    found += expect(!find(store, kernel(0).source, &toolchain), "a hit behind closed doors");
    found += expect(!store.publish(kernel(1)), "published behind closed doors");
    found += expect(log.text().find("Permission denied") != std::string::npos, "no reason given");
    found += expect(log.text().find("KILN_CACHE_DIR") != std::string::npos, "no way out given");
    // One about the root, and one about reading where the root itself could be entered.
    found += expect(log.lines().size() <= 2, "more than that:\n" + log.text());
    return found;
  });
  CHECK(problem == "");
}

TEST_CASE(
    "A user without a home, on a disk that nobody may write, gets memory and one warning (field "
    "report 26)") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  REQUIRE(chmod(built.dir.str("tmp").c_str(), 0755) == 0);
  const std::string problem = as_user(random_uid(), [&]() -> std::string {
    LogLines log;
    StoreOptions options = options_at("", log);
    options.root.tmpdir = built.dir.str("tmp");
    Store store(options);
    std::string found = expect(!find(store, kernel(0).source), "a hit from nowhere");
    found += expect(!store.publish(kernel(0)), "published to nowhere");
    found += expect(log.lines().size() == 1, "not one warning but:\n" + log.text());
    return found;
  });
  CHECK(problem == "");
}

}  // namespace kiln::cache
