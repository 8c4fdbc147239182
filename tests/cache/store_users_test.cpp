#include <filesystem>
#include <random>

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
    "A prebuilt root serves a random user every kernel, with one warning and nothing written") {
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
    options.root.uid = geteuid();
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

TEST_CASE("A default root of another user is read, and new kernels go to a private directory") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  const std::string problem = as_user(random_uid(), [&]() -> std::string {
    LogLines log;
    StoreOptions options = options_at("", log);
    options.root.home = built.dir.str("home");
    options.root.tmpdir = built.dir.str("tmp");
    options.root.uid = geteuid();
    const std::string fallback = fallback_root(options.root);
    Store store(options);
    std::string found = expect_hits(store, nullptr);
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

TEST_CASE("A fallback directory planted by another user is neither read nor written") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  const uid_t victim = random_uid();
  RootInputs inputs;
  inputs.tmpdir = built.dir.str("tmp");
  inputs.uid = victim;
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
    options.root.uid = geteuid();
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

TEST_CASE("A user without a home, on a disk that nobody may write, gets memory and one warning") {
  if (cannot_change_user()) {
    return;
  }
  const Built built;
  REQUIRE(chmod(built.dir.str("tmp").c_str(), 0755) == 0);
  const std::string problem = as_user(random_uid(), [&]() -> std::string {
    LogLines log;
    StoreOptions options = options_at("", log);
    options.root.tmpdir = built.dir.str("tmp");
    options.root.uid = geteuid();
    Store store(options);
    std::string found = expect(!find(store, kernel(0).source), "a hit from nowhere");
    found += expect(!store.publish(kernel(0)), "published to nowhere");
    found += expect(log.lines().size() == 1, "not one warning but:\n" + log.text());
    return found;
  });
  CHECK(problem == "");
}

}  // namespace kiln::cache
