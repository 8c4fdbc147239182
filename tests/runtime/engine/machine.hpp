#pragma once

#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <elf.h>

#include <kiln/engine.hpp>

#include "cache/store.hpp"
#include "runtime/engine_impl.hpp"
#include "runtime/nvrtc/source_key.hpp"
#include "tests/fake_driver/fake_driver.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::test {

template <>
struct ErrorWith<ErrorCode> {
  using Type = Error;
};

/// Collects an engine's log lines.
class LogLines {
 public:
  LogSink sink(LogLevel level = LogLevel::kWarning) { return {&LogLines::add, this, level}; }
  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::size_t count_with(const std::string& part) {
    std::size_t count = 0;
    for (const std::string& line : lines()) {
      count += line.find(part) != std::string::npos ? 1U : 0U;
    }
    return count;
  }

 private:
  static void add(LogLevel, const char* message, void* user) {
    auto& self = *static_cast<LogLines*>(user);
    const std::lock_guard lock(self.mutex_);
    self.lines_.emplace_back(message);
  }
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// The least that passes for a cubin with the fake driver: an ELF header, then text that holds the
/// symbol's name and whatever tells two images apart.
inline std::string fake_image(const std::string& symbol, const std::string& mark) {
  const std::string text = symbol + "\n" + mark + "\n";
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof(header) + text.size();  // Where the file ends.
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + text;
}

/// A machine of one test: a fake driver of its own (a copy of the library, so that it shares no
/// state with another test's), a cache directory, and no NVRTC unless the test asks for it.
class Machine {
 public:
  Machine() {
    const std::string path = dir_.str("libcuda.so.1");
    std::filesystem::copy_file(KILN_FAKE_DRIVER, path);
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(handle != nullptr);
    const auto control =
        reinterpret_cast<fake::ControlFunction>(dlsym(handle, fake::kControlSymbol));
    REQUIRE(control != nullptr);
    fake_ = control();
  }

  fake::Control& fake() noexcept { return *fake_; }
  const TempDir& dir() const noexcept { return dir_; }
  std::string cache_root() const { return dir_.str("cache"); }

  /// This machine's driver and cache; an NVRTC that is not there; logs into log().
  EngineOptions options() {
    EngineOptions options;
    options.driver = dir_.str("libcuda.so.1");
    options.cache_root = cache_root();
    options.nvrtc = dir_.str("no-nvrtc/libnvrtc.so");
    options.check = false;
    options.log = log_.sink();
    return options;
  }
  LogLines& log() noexcept { return log_; }

  /// Makes a new context of the device current on this thread.
  CUcontext enter(int device = 0) {
    CUcontext context = fake_->make_context(device);
    fake_->set_current(context);
    return context;
  }

 private:
  TempDir dir_;
  LogLines log_;
  fake::Control* fake_ = nullptr;
};

/// What a planted entry looks like.
struct Planted {
  std::string mark = "first";
  int toolchain_major = 13;
  int toolchain_minor = 0;
  bool pdl_wait = true;
  cache::Resources resources{};
};

/// "scale_kernel": the kernel's template name without namespace and arguments.
inline std::string symbol_of(const Variant& variant) {
  return variant.op->kernels[variant.kernel].name + "_symbol";
}

/// The entry that a prebuild elsewhere would have left for this variant.
inline cache::Entry planted_entry(const Variant& variant, const Planted& planted = {}) {
  const auto unit = registry::compile_unit(variant);
  if (!unit) {
    FAIL(unit.error().message);
  }
  cache::Entry entry;
  entry.source = runtime::source_key(*unit);
  entry.toolchain = cache::ToolchainKey(planted.toolchain_major, planted.toolchain_minor,
                                        "planted " + planted.mark);
  entry.symbol = symbol_of(variant);
  entry.label = to_string(variant);
  entry.pdl_wait = planted.pdl_wait;
  entry.resources = planted.resources;
  entry.image = fake_image(entry.symbol, entry.label + " " + planted.mark);
  return entry;
}

inline void publish(const std::string& root, const cache::Entry& entry) {
  cache::StoreOptions options;
  options.root.option = root;
  const Status status = cache::Store(options).publish(entry);
  if (!status) {
    FAIL(status.error().message);
  }
}

/// Leaves every kernel of the op for `target` in the cache directory `root`.
inline void plant(Engine& engine, const std::string& op, const char* target,
                  const std::string& root, const Planted& planted = {}) {
  for (const Variant& variant : engine.variants(engine.op(op), parse_target(target))) {
    publish(root, planted_entry(variant, planted));
  }
}

/// Memory for tensors that nothing ever reads: an aligned address.
inline void* address(std::uint64_t value) {
  return reinterpret_cast<void*>(value);
}

}  // namespace kiln::test
