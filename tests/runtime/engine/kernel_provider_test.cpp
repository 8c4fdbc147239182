// The provider on a disk that counts and fails, with a real NVRTC.

#include "runtime/kernel_provider.hpp"

#include <atomic>
#include <barrier>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "tests/cache/fake_clock.hpp"
#include "tests/cache/faulty_file_system.hpp"
#include "tests/cache/samples.hpp"
#include "tests/runtime/engine/tiny_kernels.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::test {
namespace {

using namespace std::chrono_literals;
using cache::test::Call;
using cache::test::FakeClock;
using cache::test::FaultyFileSystem;
using cache::test::files_below;
using runtime::KernelProvider;
using runtime::Obtained;

// False, with the reason as a warning, where this machine has none: the test is skipped.
bool has_nvrtc() {
  const auto found = runtime::find_toolchain(runtime::ToolchainInputs::from_environment(""));
  if (!found) {
    WARN("skipped: " + found.error().message);
  }
  return found.has_value();
}

runtime::ProviderOptions provider_options(JitPolicy policy = JitPolicy::kAllow) {
  runtime::ProviderOptions options;
  options.compiler.toolchain = runtime::ToolchainInputs::from_environment("");
  options.compiler.forbidden = policy == JitPolicy::kForbid;
  options.compiler.in_process = true;
  options.policy = policy;
  return options;
}

// One engine's worth of cache and compiler.
struct Side {
  explicit Side(const std::string& root, std::vector<std::string> layers = {})
      : store(options(root, std::move(layers))),
        trace("", log.logger()),
        provider(store, provider_options(), log.logger(), trace) {
    disk->skip_sync();
  }
  cache::StoreOptions options(const std::string& root, std::vector<std::string> layers) {
    cache::StoreOptions options = cache::test::options_at(root, log, disk);
    options.read_only_layers = std::move(layers);
    options.wait_clock = clock;
    return options;
  }
  Result<Obtained> obtain(const runtime::Candidate& candidate) {
    return provider.obtain({&candidate, 1});
  }
  int lock_calls() const {
    return disk->calls(Call::kOpenLock) + disk->calls(Call::kTryLock) + disk->calls(Call::kUnlock);
  }

  cache::test::LogLines log;
  std::shared_ptr<FaultyFileSystem> disk = std::make_shared<FaultyFileSystem>();
  std::shared_ptr<FakeClock> clock = std::make_shared<FakeClock>();
  cache::Store store;
  runtime::Trace trace;
  KernelProvider provider;
};

bool works(const Result<Obtained>& obtained, const runtime::Candidate& candidate) {
  return obtained && obtained->entry->source.material == candidate.source.material &&
         obtained->entry->image.bytes().substr(1, 3) == "ELF" && !obtained->entry->symbol.empty();
}

}  // namespace

TEST_CASE("Threads that miss the same kernels compile each once (field report 16)") {
  if (!has_nvrtc()) {
    return;
  }
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kKernels = 6;
  const TempDir dir;
  const TinyKernels kernels(kKernels);
  cache::test::LogLines log;
  runtime::Trace trace("", log.logger());
  // Two engines of one process exclude each other just as two threads of one engine do.
  cache::Store stores[] = {cache::Store(cache::test::options_at(dir.str("root"), log)),
                           cache::Store(cache::test::options_at(dir.str("root"), log))};
  KernelProvider providers[] = {KernelProvider(stores[0], provider_options(), log.logger(), trace),
                                KernelProvider(stores[1], provider_options(), log.logger(), trace)};
  std::atomic<int> failures{0};
  {
    std::barrier start(kThreads);
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        start.arrive_and_wait();
        for (std::size_t i = 0; i < kKernels; ++i) {
          const runtime::Candidate& wanted = kernels[(i + thread / 2) % kKernels];
          const Result<Obtained> obtained = providers[thread % 2].obtain({&wanted, 1});
          failures += works(obtained, wanted) && obtained->stored ? 0 : 1;
        }
      });
    }
  }
  CHECK(failures == 0);
  CHECK(providers[0].compiles() + providers[1].compiles() == kKernels);
  CHECK(log.text() == "");
}

TEST_CASE("A warm hit makes no call for a lock and writes nothing (field reports 21 and 27)") {
  if (!has_nvrtc()) {
    return;
  }
  const TempDir dir;
  const TinyKernels kernels(2);
  {
    Side cold(dir.str("root"));
    for (const auto& candidate : kernels.all()) {
      REQUIRE(cold.obtain(candidate));
    }
    CHECK(cold.lock_calls() > 0);
  }
  const bool from_layer = GENERATE(false, true);
  const std::string root = from_layer ? dir.str("empty") : dir.str("root");
  Side warm(root, from_layer ? std::vector{dir.str("root")} : std::vector<std::string>());
  for (const auto& candidate : kernels.all()) {
    CHECK(works(warm.obtain(candidate), candidate));
  }
  CHECK(warm.lock_calls() == 0);
  CHECK(warm.disk->writing_calls() == 0);
  CHECK(warm.disk->successful_opens() == 2);
  CHECK(warm.provider.compiles() == 0);
}

TEST_CASE("One who waited for another's compile takes what it published") {
  if (!has_nvrtc()) {
    return;
  }
  const TempDir dir;
  const TinyKernels kernels(1);
  Side ahead(dir.str("root"));
  Side behind(dir.str("root"));
  const cache::ToolchainKey toolchain =
      runtime::toolchain_key(*ahead.provider.source().toolchain());
  cache::CompileLock lock = ahead.store.lock(kernels[0].source, toolchain);
  REQUIRE(lock.held());
  behind.clock->on_sleep([&] {
    if (lock.held()) {
      cache::Entry entry = cache::test::sample_entry(kernels[0].source, toolchain);
      CHECK(ahead.store.publish(entry));
      lock = cache::CompileLock();
    }
  });
  const auto obtained = behind.obtain(kernels[0]);
  REQUIRE(works(obtained, kernels[0]));
  CHECK(obtained->from_cache);
  CHECK(behind.clock->sleeps() == 1);
  CHECK(behind.provider.compiles() == 0);
  CHECK(behind.store.counters().misses == 1);
  CHECK(behind.store.counters().hits == 1);
}

TEST_CASE("One who waited in vain compiles, and stores what it made (field report 17)") {
  if (!has_nvrtc()) {
    return;
  }
  const TempDir dir;
  const TinyKernels kernels(1);
  Side ahead(dir.str("root"));
  Side behind(dir.str("root"));
  const cache::ToolchainKey toolchain =
      runtime::toolchain_key(*ahead.provider.source().toolchain());
  // By the waiter's clock, which stands in for a holder that never beats again.
  const cache::CompileLock lock = ahead.store.lock(kernels[0].source, toolchain);
  const auto obtained = behind.obtain(kernels[0]);
  REQUIRE(works(obtained, kernels[0]));
  CHECK_FALSE(obtained->from_cache);
  CHECK(obtained->stored);
  CHECK(behind.clock->now() < 30s);
}

TEST_CASE("A compile that fails lets go of the lock") {
  if (!has_nvrtc()) {
    return;
  }
  const TempDir dir;
  const TinyKernels kernels(1);
  Side side(dir.str("root"));
  runtime::Candidate broken = kernels[0];
  broken.unit.main.text = "no C++";
  CHECK_FALSE(side.obtain(broken));
  side.provider.forget_failures();  // Of this key, which both share.
  CHECK(side.obtain(kernels[0]));
  CHECK(side.clock->sleeps() == 0);
}

TEST_CASE("Who loses the race to publish uses the bytes that it compiled itself") {
  if (!has_nvrtc()) {
    return;
  }
  const TempDir dir;
  const TinyKernels kernels(1);
  Side side(dir.str("root"));
  // Between our compile and our rename another writer's file takes the name, and is of no use.
  const runtime::Accept lose = [&](const cache::Entry& entry) {
    cache::test::write_bytes(cache::test::entry_path(dir.str("root"), entry), "half an ent");
    side.disk->fail(Call::kRename, EEXIST, 1);
    return tl::expected<void, runtime::LoadFailure>();
  };
  CHECK(works(side.provider.obtain({&kernels[0], 1}, lose), kernels[0]));
  CHECK(side.disk->faults() == 1);
  CHECK(files_below(dir.str("root/v1/tmp")).empty());
}

TEST_CASE("A lookup after the rename that finds nothing is no failure (field report 2)") {
  if (!has_nvrtc()) {
    return;
  }
  const TempDir dir;
  const TinyKernels kernels(1);
  Side side(dir.str("root"));
  side.disk->fail(Call::kOpenForRead, ENOENT);
  for (int i = 0; i < 2; ++i) {
    CHECK(works(side.obtain(kernels[0]), kernels[0]));
  }
  CHECK(side.log.text() == "");
  side.disk->heal();
  CHECK(side.obtain(kernels[0])->from_cache);
}

TEST_CASE("A rename that fails keeps the kernel and counts one failed write (field report 7)") {
  if (!has_nvrtc()) {
    return;
  }
  const TempDir dir;
  const TinyKernels kernels(1);
  Side side(dir.str("root"));
  side.disk->fail(Call::kRename, GENERATE(ENOENT, EIO, ESTALE, EACCES));
  const auto first = side.obtain(kernels[0]);
  REQUIRE(works(first, kernels[0]));
  CHECK_FALSE(first->stored);
  CHECK(first->store_problem.find("publish") != std::string::npos);
  const auto second = side.obtain(kernels[0]);
  REQUIRE(second);
  CHECK(second->entry->image == first->entry->image);
  CHECK(side.provider.compiles() == 1);
  CHECK(side.store.counters().write_failures == 1);
  CHECK(side.log.lines().size() == 1);
  CHECK(files_below(dir.str("root/v1/tmp")).empty());
}

TEST_CASE("Whatever disk call fails, the kernel works, with one warning and no partial file") {
  if (!has_nvrtc()) {
    return;
  }
  const int error = GENERATE(EIO, ENOSPC, EDQUOT, EACCES, EROFS, ESTALE, EMFILE);
  const auto call = static_cast<Call>(GENERATE(range(0, static_cast<int>(Call::kCount))));
  const int nth = GENERATE(0, 1);  // Every call; the first.
  INFO("call " << static_cast<int>(call) << ", " << cache::errno_text(error) << ", number " << nth);
  const TempDir dir;
  const TinyKernels kernels(1);
  Side side(dir.str("root"));
  side.disk->fail(call, error, nth);
  for (int i = 0; i < 2; ++i) {
    CHECK(works(side.obtain(kernels[0]), kernels[0]));
  }
  INFO(side.log.text());
  CHECK(side.log.lines().size() <= 1);
  for (const std::string& path : files_below(dir.str("root"))) {
    INFO(path);
    const bool lock = path.find("/v1/locks/") != std::string::npos;
    CHECK((lock || cache::decode_entry(cache::test::read_bytes(path))));
  }
}

}  // namespace kiln::test
