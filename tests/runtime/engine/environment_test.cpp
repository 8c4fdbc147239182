#include "runtime/environment.hpp"

#include <cstdlib>

#include "tests/runtime/engine/ops.hpp"

namespace kiln::test {
namespace {

// Sets a variable for one test and puts the old value back.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) {
      old_ = old;
    }
    value != nullptr ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

}  // namespace

TEST_CASE("Options win over the environment, which fills in what they leave open") {
  const Variable cache("KILN_CACHE_DIR", "/from/the/environment");
  const Variable nvrtc("KILN_NVRTC", "/nvrtc/from/the/environment");
  EngineOptions options;
  runtime::Environment environment = runtime::Environment::read(options);
  CHECK(environment.root.option.empty());
  CHECK(environment.root.kiln_cache_dir == "/from/the/environment");
  CHECK(environment.toolchain.kiln_nvrtc == "/nvrtc/from/the/environment");
  options.cache_root = "/from/the/options";
  options.nvrtc = "/nvrtc/from/the/options";
  environment = runtime::Environment::read(options);
  CHECK(environment.root.option == "/from/the/options");
  CHECK(environment.toolchain.option == "/nvrtc/from/the/options");
}

TEST_CASE("Layers and trusted keys are lists of paths with colons between them") {
  using Paths = std::vector<std::string>;
  const Variable layers("KILN_CACHE_LAYERS", "/a:/b.pack::c:");
  const Variable keys("KILN_TRUSTED_KEYS", "/k.pub");
  EngineOptions options;
  CHECK(runtime::Environment::read(options).layers == Paths{"/a", "/b.pack", "c"});
  CHECK(runtime::Environment::read(options).trusted_keys == Paths{"/k.pub"});
  options.read_only_layers = {"/from/the/options"};
  options.trusted_keys = {"/keys/from/the/options"};
  CHECK(runtime::Environment::read(options).layers == options.read_only_layers);
  CHECK(runtime::Environment::read(options).trusted_keys == options.trusted_keys);
  const Variable none("KILN_CACHE_LAYERS", nullptr);
  CHECK(runtime::Environment::read(EngineOptions()).layers.empty());
}

TEST_CASE("KILN_CHECK turns the checking mode on, and the option decides when it is set") {
  EngineOptions open;
  EngineOptions off;
  off.check = false;
  EngineOptions on;
  on.check = true;
  {
    const Variable check("KILN_CHECK", "1");
    CHECK(runtime::Environment::read(open).check);
    CHECK_FALSE(runtime::Environment::read(off).check);
  }
  {
    const Variable check("KILN_CHECK", "0");
    CHECK_FALSE(runtime::Environment::read(open).check);
    CHECK(runtime::Environment::read(on).check);
  }
  const Variable check("KILN_CHECK", nullptr);
  CHECK_FALSE(runtime::Environment::read(open).check);
}

TEST_CASE("KILN_PDL=0 turns PDL off, and the option decides when it is set") {
  EngineOptions open;
  EngineOptions on;
  on.pdl = true;
  {
    const Variable pdl("KILN_PDL", "0");
    CHECK_FALSE(runtime::Environment::read(open).pdl);
    CHECK(runtime::Environment::read(on).pdl);
  }
  const Variable pdl("KILN_PDL", nullptr);
  CHECK(runtime::Environment::read(open).pdl);
  on.pdl = false;
  CHECK_FALSE(runtime::Environment::read(on).pdl);
}

TEST_CASE("KILN_CAPTURE_MISSES is load or error, and another word is refused") {
  EngineOptions open;
  EngineOptions load;
  load.capture_misses = CaptureMisses::kLoad;
  {
    const Variable none("KILN_CAPTURE_MISSES", nullptr);
    CHECK(runtime::Environment::read(open).capture_misses == CaptureMisses::kLoad);
  }
  {
    const Variable error("KILN_CAPTURE_MISSES", "error");
    CHECK(runtime::Environment::read(open).capture_misses == CaptureMisses::kError);
    CHECK(runtime::Environment::read(load).capture_misses == CaptureMisses::kLoad);
  }
  const Variable wrong("KILN_CAPTURE_MISSES", "refuse");
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { runtime::Environment::read(open); }),
                 "load or error"));
}

TEST_CASE("Sharing a cache is agreed to by a variable or by an option, which wins") {
  EngineOptions open;
  EngineOptions off;
  off.cache_group_shared = false;
  off.cache_allow_world_writable = false;
  EngineOptions on;
  on.cache_group_shared = true;
  on.cache_allow_world_writable = true;
  for (const char* value : {"1", "0", "", static_cast<const char*>(nullptr)}) {
    const Variable group("KILN_CACHE_GROUP", value);
    const Variable world("KILN_CACHE_ALLOW_WORLD_WRITABLE", value);
    const bool said = value != nullptr && std::string(value) == "1";
    CHECK(runtime::Environment::read(open).root.trust.group_shared == said);
    CHECK(runtime::Environment::read(open).root.trust.allow_world_writable == said);
    CHECK_FALSE(runtime::Environment::read(off).root.trust.group_shared);
    CHECK_FALSE(runtime::Environment::read(off).root.trust.allow_world_writable);
    CHECK(runtime::Environment::read(on).root.trust.group_shared);
    CHECK(runtime::Environment::read(on).root.trust.allow_world_writable);
  }
}

TEST_CASE("An engine reads its environment once, when it is made") {
  ScaleMachine machine;
  EngineOptions options = machine.options();
  options.cache_root.clear();
  options.check.reset();
  std::optional<Variable> cache(std::in_place, "KILN_CACHE_DIR", machine.cache_root().c_str());
  Engine engine = machine.engine(options);
  cache.reset();
  const Variable other("KILN_CACHE_DIR", "/nowhere");
  const Variable check("KILN_CHECK", "1");
  ScaleCall().launch(engine);
  CHECK(engine.counters().cache_hits == 1);
  CHECK(machine.fake().count("cuPointerGetAttribute") == 0);
}

TEST_CASE("KILN_JIT is a policy, and anything else is refused rather than guessed at") {
  EngineOptions options;
  const auto policy = [&](const char* value) {
    const Variable jit("KILN_JIT", value);
    return runtime::Environment::read(options).jit;
  };
  CHECK(policy(nullptr) == JitPolicy::kAllow);
  CHECK(policy("allow") == JitPolicy::kAllow);
  CHECK(policy("warn") == JitPolicy::kWarn);
  CHECK(policy("forbid") == JitPolicy::kForbid);
  CHECK(contains(error_of(ErrorCode::kInvalidArgument, [&] { policy("Forbid"); }), "Forbid"));
  options.jit = JitPolicy::kWarn;
  CHECK(policy("forbid") == JitPolicy::kWarn);
}

TEST_CASE("KILN_COMPILE_JOBS that is no number is left out with a warning") {
  EngineOptions options;
  const auto read = [&](const char* value) {
    const Variable jobs("KILN_COMPILE_JOBS", value);
    return runtime::Environment::read(options);
  };
  CHECK(read("12").compile_jobs == 12);
  CHECK(read("12").warnings.empty());
  for (const char* bad : {"0", "-1", "many", "12 ", "99999"}) {
    CAPTURE(bad);
    CHECK(read(bad).compile_jobs == 0);
    CHECK(read(bad).warnings.size() == 1);
  }
  options.compile_jobs = 3;
  CHECK(read("12").compile_jobs == 3);
}

}  // namespace kiln::test
