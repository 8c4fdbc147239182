#include "runtime/nvrtc/compiler.hpp"

#include <clocale>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "runtime/nvrtc/elf.hpp"
#include "tests/runtime/nvrtc/fuzz.hpp"
#include "tests/runtime/nvrtc/toolchains.hpp"
#include "tests/runtime/nvrtc/units.hpp"
#include "tests/support/temp_dir.hpp"

extern char** environ;

namespace kiln::runtime {
namespace {

namespace fs = std::filesystem;
using test::kSm100a;
using test::kSm90;
using test::kSm90a;
using test::make_unit;
using test::scale_unit;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

test::Compiled compile(const Nvrtc& nvrtc, const registry::CompileUnit& unit) {
  auto compiled = test::compile_one(nvrtc, unit);
  if (!compiled) {
    FAIL(compiled.error().message);
  }
  return std::move(*compiled);
}

Failure failure(const Nvrtc& nvrtc, const registry::CompileUnit& unit) {
  auto compiled = test::compile_one(nvrtc, unit);
  REQUIRE_FALSE(compiled);
  return compiled.error();
}

// Runs `body` with each NVRTC there is here.
template <class Body>
void with_each_nvrtc(Body&& body) {
  for (const Toolchain& toolchain : test::all_toolchains()) {
    CAPTURE(toolchain.nvrtc_path);
    body(test::load(toolchain));
  }
}

// The working directory for one scope, with files planted in it. Its name is not ASCII.
class PlantedDirectory {
 public:
  PlantedDirectory() : before_(fs::current_path()) {
    for (const char* folder : {"ops", "include"}) {
      fs::create_directories(here() / folder);
    }
    for (const char* file : {"planted.cuh", "ops/planted.cuh", "include/planted.cuh"}) {
      std::ofstream(here() / file) << "#define PLANTED 1\n";
    }
    fs::current_path(here());
  }
  ~PlantedDirectory() { fs::current_path(before_); }
  PlantedDirectory(const PlantedDirectory&) = delete;
  PlantedDirectory& operator=(const PlantedDirectory&) = delete;

 private:
  fs::path here() const { return dir_.path() / "kïln"; }
  test::TempDir dir_;
  fs::path before_;
};

TEST_CASE(
    "The NVRTC wheels of the oldest and newest version are there when CI runs (field report 82)") {
  if (std::getenv("CI") == nullptr) {
    WARN("skipped: only CI insists on the wheels");
    return;
  }
  CHECK(test::wheel_toolchain(test::kOldestWheel).size() == 1);
  CHECK(test::wheel_toolchain(test::kNewestWheel).size() == 1);
}

TEST_CASE("A template compiles to a checked cubin with its lowered name and resources") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    const test::Compiled compiled = compile(nvrtc, scale_unit());
    CHECK(compiled.symbol == "_Z5scaleILi3EEvPf");
    CHECK(check_cubin(compiled.cubin, compiled.symbol, kSm90a));
    CHECK(contains(compiled.ptx, ".target sm_90a"));
    CHECK(compiled.resources.registers > 0);
    CHECK(compiled.resources.spill_store_bytes == 0);
    CHECK_FALSE(compiled.pdl_wait);
  });
}

TEST_CASE("A header in the working directory is not found (field report 81)") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    const PlantedDirectory here;
    for (const char* name : {"planted.cuh", "ops/planted.cuh", "./planted.cuh", "../planted.cuh",
                             "include/planted.cuh"}) {
      for (const bool quoted : {true, false}) {
        for (const char* main : {"ops/test_op.cuh", "test_op.cuh"}) {
          CAPTURE(name, quoted, main);
          const std::string directive = quoted ? "#include \"" + std::string(name) + "\"\n"
                                               : "#include <" + std::string(name) + ">\n";
          registry::CompileUnit unit = make_unit(directive + test::kScale, "scale<3>");
          unit.main.name = main;
          const Failure failed = failure(nvrtc, unit);
          CHECK(failed.code == ErrorCode::kCompileFailed);
          CHECK(contains(failed.message, "could not open source file"));
        }
      }
    }
  });
}

TEST_CASE("A header named by an absolute path is not read from disk") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    const PlantedDirectory here;
    const std::string path = (fs::current_path() / "planted.cuh").string();
    for (const std::string& directive :
         {"#include \"" + path + "\"\n", "#include <" + path + ">\n"}) {
      const Failure failed = failure(nvrtc, make_unit(directive + test::kScale, "scale<3>"));
      CHECK(failed.code == ErrorCode::kCompileFailed);
      CHECK(contains(failed.message, "ops/test_op.cuh:1 includes " + path + " from disk"));
      registry::CompileUnit nested =
          make_unit(std::string("#include \"nested.cuh\"\n") + test::kScale, "scale<3>");
      nested.headers = {{"nested.cuh", "\n" + directive}};
      CHECK(contains(failure(nvrtc, nested).message, "nested.cuh:2 includes " + path));
      // In memory under that name, it is a header like any other.
      nested.headers.push_back({path, "#define PLANTED 1\n"});
      CHECK(test::compile_one(nvrtc, nested));
    }
  });
}

TEST_CASE("A header in memory is found, and not the one of its name on disk (field report 81)") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    const PlantedDirectory here;
    registry::CompileUnit unit =
        make_unit(std::string("#include \"planted.cuh\"\n#include \"deep/b.cuh\"\n"
                              "static_assert(PLANTED == 2 && DEEP == 3);\n") +
                      test::kScale,
                  "scale<3>");
    unit.headers = {{"deep/b.cuh", "#include \"planted.cuh\"\n#define DEEP PLANTED + 1\n"},
                    {"planted.cuh", "#pragma once\n#define PLANTED 2\n"}};
    CHECK(test::compile_one(nvrtc, unit));
  });
}

TEST_CASE("A failed compile reports log, NVRTC, options, op and traits (field report 78)") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    registry::CompileUnit unit = make_unit("__global__ void k() { undeclared_name = 1; }", "k");
    unit.options = {"-DSOME_OPTION=7"};
    const Failure failed = failure(nvrtc, unit);
    CHECK(failed.code == ErrorCode::kCompileFailed);
    for (const std::string& part :
         {unit.label, std::string("identifier \"undeclared_name\" is undefined"),
          std::string("ops/test_op.cuh(1)"), "NVRTC " + nvrtc.toolchain().version(),
          nvrtc.toolchain().nvrtc_path, nvrtc.toolchain().builtins_path,
          std::string("--gpu-architecture=sm_90a --no-source-include --ptxas-options=-v "
                      "-DSOME_OPTION=7"),
          std::string("NVRTC_ERROR_COMPILATION")}) {
      CAPTURE(part);
      CHECK(contains(failed.message, part));
    }
  });
}

TEST_CASE("The log of a failed compile is whole, however long") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    std::string source = "__global__ void k() {\n";
    for (int i = 0; i < 80; ++i) {
      source += "undeclared_" + std::to_string(i) + " = 1;\n";
    }
    const Failure failed = failure(nvrtc, make_unit(source + "}", "k"));
    CHECK(contains(failed.message, "undeclared_0"));
    CHECK(contains(failed.message, "undeclared_79"));
  });
}

TEST_CASE("A wrong instantiation or a wrong option is a failed compile that says so") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    CHECK(contains(failure(nvrtc, make_unit(test::kScale, "absent<3>")).message, "absent"));
    registry::CompileUnit unit = scale_unit();
    unit.options = {"--no-such-option"};
    CHECK(contains(failure(nvrtc, unit).message, "--no-such-option"));
  });
}

TEST_CASE("Success without a cubin is a failed compile (field report 73)") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    registry::CompileUnit unit = scale_unit();
    unit.options = {"-dlto"};  // NVRTC reports success, and a cubin of size 0.
    const Failure failed = failure(nvrtc, unit);
    CHECK(failed.code == ErrorCode::kCompileFailed);
    CHECK(contains(failed.message, "returned no cubin"));
    CHECK(contains(failed.message, unit.label));
  });
}

TEST_CASE("Two targets give two cubins, and each is refused for the other (field report 42)") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    const test::Compiled base = compile(nvrtc, scale_unit(kSm90));
    const test::Compiled own = compile(nvrtc, scale_unit(kSm90a));
    CHECK(base.symbol == own.symbol);
    // NVRTC before 12.9 writes no note from which the suffix could be read.
    const bool has_note = contains(base.cubin, "-arch sm_90");
    CHECK(bool(check_cubin(own.cubin, own.symbol, kSm90)) == !has_note);
    CHECK(bool(check_cubin(base.cubin, base.symbol, kSm90a)) == !has_note);
    CHECK_FALSE(check_cubin(base.cubin, base.symbol, {9, 1, TargetSuffix::kBase}));
    if (nvrtc.check_target(kSm100a)) {
      const test::Compiled next = compile(nvrtc, scale_unit(kSm100a));
      CHECK_FALSE(check_cubin(next.cubin, next.symbol, kSm90a));
      CHECK_FALSE(check_cubin(own.cubin, own.symbol, kSm100a));
      CHECK_FALSE(check_cubin(next.cubin, next.symbol, {10, 0, TargetSuffix::kFamily}));
    }
  });
}

TEST_CASE("An option that names a second target does not change the target") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    for (const char* option : {"-arch=sm_80", "-arch=sm_90", "-arch=compute_90"}) {
      CAPTURE(option);
      registry::CompileUnit unit = scale_unit(kSm90a);
      unit.options = {option};
      const auto compiled =
          test::compile_one(nvrtc, unit);  // NVRTC versions differ in what they refuse.
      CHECK((!compiled || check_cubin(compiled->cubin, compiled->symbol, kSm90a)));
    }
  });
}

TEST_CASE(
    "A target that NVRTC cannot make is refused before compiling, with those that it can (field "
    "report 91)") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    registry::CompileUnit unit = scale_unit({7, 7, TargetSuffix::kArch});
    unit.main.text = "this does not compile";
    const Failure failed = failure(nvrtc, unit);
    CHECK(failed.code == ErrorCode::kUnsupportedTarget);
    CHECK(contains(failed.message, "cannot compile for sm_77a"));
    CHECK(contains(failed.message, "sm_80, "));
    CHECK(contains(failed.message, "sm_90, sm_90a"));
    CHECK(contains(failed.message, nvrtc.toolchain().nvrtc_path));
  });
  for (const Toolchain& oldest : test::wheel_toolchain(test::kOldestWheel)) {
    const Failure failed = failure(test::load(oldest), scale_unit(kSm100a));
    CHECK(failed.code == ErrorCode::kUnsupportedTarget);
    CHECK(contains(failed.message, "sm_100a needs NVRTC 12.8 or newer"));
  }
}

TEST_CASE("Every target that NVRTC is said to know, it compiles for") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    CHECK(nvrtc.targets().size() >= 7);
    for (const Target& target : nvrtc.targets()) {
      CAPTURE(to_string(target));
      CHECK(compile(nvrtc, scale_unit(target)).resources.registers > 0);
    }
  });
}

TEST_CASE("Spills, stack, registers and shared memory are recorded") {
  const std::string source = R"(
    __global__ void __launch_bounds__(1024, 2) heavy(float* p) {
      __shared__ float shared[333];
      float r[100];
    #pragma unroll
      for (int i = 0; i < 100; ++i) r[i] = p[i * 1024 + threadIdx.x];
      shared[threadIdx.x % 333] = r[7];
      __syncthreads();
    #pragma unroll
      for (int i = 0; i < 100; ++i) p[i * 1024 + threadIdx.x] = r[99 - i] * shared[i] + r[i];
    }
    __global__ void light(float* p) { p[0] = 1; })";
  with_each_nvrtc([&source](const Nvrtc& nvrtc) {
    const cache::Resources heavy = compile(nvrtc, make_unit(source, "heavy")).resources;
    CHECK(heavy.registers == 32);
    CHECK(heavy.shared_bytes >= 333 * 4);
    CHECK(heavy.stack_bytes > 0);
    CHECK(heavy.spill_store_bytes > 0);
    CHECK(heavy.spill_load_bytes > 0);
    const cache::Resources light = compile(nvrtc, make_unit(source, "light")).resources;
    CHECK(light.registers > 0);
    CHECK(light == cache::Resources{light.registers, 0, 0, 0, 0});
  });
}

TEST_CASE("The PDL wait is recorded for the entry that was asked for") {
  const std::string source = R"(
    template <bool WAIT> __global__ void k(float* p) {
      if constexpr (WAIT) asm volatile("griddepcontrol.wait;" ::: "memory");
      p[0] = 1;
    }
    __global__ void always(float* p) { asm volatile("griddepcontrol.wait;" ::: "memory"); p[0] = 2; }
  )";
  with_each_nvrtc([&source](const Nvrtc& nvrtc) {
    CHECK(compile(nvrtc, make_unit(source, "k<true>")).pdl_wait);
    CHECK_FALSE(compile(nvrtc, make_unit(source, "k<false>")).pdl_wait);
  });
}

TEST_CASE("Two compiles of one unit give the same bytes, on one thread and on several") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    const test::Compiled first = compile(nvrtc, scale_unit());
    CHECK(compile(nvrtc, scale_unit()).cubin == first.cubin);
    std::vector<std::string> cubins(4);
    std::vector<std::thread> threads;
    for (std::string& cubin : cubins) {
      threads.emplace_back([&nvrtc, &cubin] {
        if (auto compiled = test::compile_one(nvrtc, scale_unit())) {
          cubin = std::move(compiled->cubin);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (const std::string& cubin : cubins) {
      CHECK(cubin == first.cubin);
    }
  });
}

TEST_CASE("A compile leaves locale, environment and working directory as they are") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  REQUIRE(std::setlocale(LC_ALL, "C.UTF-8") != nullptr);
  // A locale of this thread, to be told from the process's by its handle.
  const locale_t mine = newlocale(LC_NUMERIC_MASK, "C", nullptr);
  uselocale(mine);
  with_each_nvrtc([mine](const Nvrtc& nvrtc) {
    const std::string locale = std::setlocale(LC_ALL, nullptr);
    const fs::path directory = fs::current_path();
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      variables.emplace_back(*entry);
    }
    compile(nvrtc, scale_unit());
    failure(nvrtc, make_unit("error", "error"));
    CHECK(std::string(std::setlocale(LC_ALL, nullptr)) == locale);
    CHECK(locale == "C.UTF-8");
    CHECK(uselocale(nullptr) == mine);
    CHECK(fs::current_path() == directory);
    std::vector<std::string> after;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      after.emplace_back(*entry);
    }
    CHECK(after == variables);
  });
  uselocale(LC_GLOBAL_LOCALE);
  freelocale(mine);
  std::setlocale(LC_ALL, before.c_str());
}

TEST_CASE("No damage to a real cubin makes its check read outside of it") {
  with_each_nvrtc([](const Nvrtc& nvrtc) {
    const test::Compiled compiled = compile(nvrtc, scale_unit());
    std::size_t refused = 0;
    test::damage(compiled.cubin, 20000, [&](const std::string& damaged) {
      refused += check_cubin(damaged, compiled.symbol, kSm90a) ? 0u : 1u;
    });
    CHECK(refused > 0);
  });
}

}  // namespace
}  // namespace kiln::runtime
