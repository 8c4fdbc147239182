#include "runtime/nvrtc/elf.hpp"

#include <fstream>
#include <string>

#include "cache/key.hpp"
#include "tests/runtime/nvrtc/elf_builder.hpp"
#include "tests/runtime/nvrtc/fuzz.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::runtime {
namespace {

using test::CubinRecipe;
using test::make_cubin;
using test::make_library;

constexpr Target kSm90{9, 0, TargetSuffix::kBase};
constexpr Target kSm90a{9, 0, TargetSuffix::kArch};
constexpr Target kSm100f{10, 0, TargetSuffix::kFamily};

std::string problem(const std::string& image, const std::string& symbol, const Target& target) {
  const Status status = check_cubin(image, symbol, target);
  return status ? "" : status.error().message;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("A cubin for the target that holds the symbol is accepted") {
  CHECK(problem(make_cubin({}), "kernel", kSm90a).empty());
  CubinRecipe family;
  family.flags = 0x6006402;
  family.command_line = "-v  -arch sm_100f ";
  CHECK(problem(make_cubin(family), "kernel", kSm100f).empty());
}

TEST_CASE("An empty cubin is a failure although the compiler reported success") {
  CHECK(contains(problem("", "kernel", kSm90a), "returned no cubin (0 bytes)"));
  CHECK(check_cubin("", "kernel", kSm90a).error().code == ErrorCode::kCompileFailed);
}

TEST_CASE("What is no 64-bit CUDA ELF image is refused, saying what it is") {
  CHECK(contains(problem("BC\xc0\xde not an ELF image", "kernel", kSm90a), "no 64-bit ELF"));
  CHECK(contains(problem(make_library("id"), "kernel", kSm90a), "for machine 62, not for CUDA"));
  CubinRecipe abi;
  abi.abi = 0x55;
  CHECK(contains(problem(make_cubin(abi), "kernel", kSm90a), "ELF ABI 0x55 is unknown"));
}

TEST_CASE("The base architecture is read from e_flags in both ABIs") {
  CubinRecipe recipe;
  recipe.command_line.clear();
  recipe.flags = 0x6006402;
  CHECK(contains(problem(make_cubin(recipe), "kernel", kSm90), "for sm_100, not for sm_90"));
  recipe.flags = 0x6005a04;
  CHECK(problem(make_cubin(recipe), "kernel", kSm90).empty());
  recipe.abi = 0x33;
  recipe.flags = 0x5a055a;  // As NVRTC 12.3 writes it.
  CHECK(problem(make_cubin(recipe), "kernel", kSm90).empty());
  recipe.flags = 0x500550;
  CHECK(contains(problem(make_cubin(recipe), "kernel", kSm90), "for sm_80, not for sm_90"));
}

TEST_CASE("The suffix is read from the note, and without a note the request stands") {
  CubinRecipe recipe;
  CHECK(contains(problem(make_cubin(recipe), "kernel", kSm90), "for sm_90a, not for sm_90"));
  recipe.command_line = "-arch=sm_90 -v";
  CHECK(problem(make_cubin(recipe), "kernel", kSm90).empty());
  CHECK(contains(problem(make_cubin(recipe), "kernel", kSm90a), "for sm_90, not for sm_90a"));
  recipe.command_line.clear();
  CHECK(problem(make_cubin(recipe), "kernel", kSm90).empty());
  CHECK(problem(make_cubin(recipe), "kernel", kSm90a).empty());
}

TEST_CASE("The symbol must be a function that the image defines") {
  CHECK(contains(problem(make_cubin({}), "other", kSm90a), "does not hold the kernel other"));
  CHECK(contains(problem(make_cubin({}), "kerne", kSm90a), "does not hold the kernel kerne"));
  CHECK(contains(problem(make_cubin({}), "", kSm90a), "does not hold the kernel"));
  CubinRecipe recipe;
  recipe.symbol_type = STT_OBJECT;
  CHECK(contains(problem(make_cubin(recipe), "kernel", kSm90a), "does not hold"));
  recipe.symbol_type = STT_FUNC;
  recipe.symbol_section = SHN_UNDEF;
  CHECK(contains(problem(make_cubin(recipe), "kernel", kSm90a), "does not hold"));
}

TEST_CASE("No damage to a cubin makes its check read outside of it") {
  const std::string image = make_cubin({});
  std::size_t refused = 0;
  std::size_t tried = 0;
  test::damage(image, 50000, [&](const std::string& damaged) {
    ++tried;
    refused += check_cubin(damaged, "kernel", kSm90a) ? 0u : 1u;
    (void)build_id(damaged);
  });
  CHECK(tried > 50000);
  CHECK(refused > image.size());  // At the least, every truncation lacks the section headers.
}

TEST_CASE("A build id is found in notes of either alignment") {
  const std::string id =
      "\x65\xbe\x0d\xb3\x42\xad\x51\xa0\x68\x76\xe7\x1e\x21\x0b\xcc\xc5\xaa\x83\x22\xcf";
  CHECK(build_id(make_library(id)) == "65be0db342ad51a06876e71e210bccc5aa8322cf");
  CHECK(build_id(make_library(id, 8)) == "65be0db342ad51a06876e71e210bccc5aa8322cf");
  CHECK(build_id(make_library("")).empty());
  CHECK(build_id("no ELF").empty());
}

TEST_CASE("No damage to a library makes reading its build id read outside of it") {
  std::size_t found = 0;
  test::damage(make_library("0123456789"), 50000,
               [&](const std::string& damaged) { found += build_id(damaged).empty() ? 0u : 1u; });
  CHECK(found > 0);
}

TEST_CASE("A library without a build id is identified by its content") {
  const test::TempDir dir;
  const std::string image = make_library("");
  std::ofstream(dir.str("lib.so"), std::ios::binary) << image;
  CHECK(library_id(dir.str("lib.so")).value() == "xxh3:" + cache::digest(image).hex());
  std::ofstream(dir.str("other.so"), std::ios::binary) << image << "more";
  CHECK(library_id(dir.str("other.so")).value() != library_id(dir.str("lib.so")).value());
}

TEST_CASE("A library that was cut short has no identity, since loading it would kill the process") {
  const test::TempDir dir;
  const std::uint64_t size = make_library("0123456789").size();
  std::ofstream(dir.str("whole.so"), std::ios::binary) << make_library("0123456789", 4, size);
  CHECK(library_id(dir.str("whole.so")));
  std::ofstream(dir.str("short.so"), std::ios::binary) << make_library("0123456789", 4, size + 1);
  const auto id = library_id(dir.str("short.so"));
  REQUIRE_FALSE(id);
  CHECK(contains(id.error().message, "is cut short"));
}

TEST_CASE("A file that is no library has no identity, and the reason names it") {
  const test::TempDir dir;
  std::ofstream(dir.str("text")) << "not a library";
  std::ofstream(dir.str("empty"));
  for (const char* name : {"text", "empty", "absent", "."}) {
    CAPTURE(name);
    const auto id = library_id(dir.str(name));
    REQUIRE_FALSE(id);
    CHECK(id.error().code == ErrorCode::kIo);
    CHECK(contains(id.error().message, dir.str(name)));
  }
}

}  // namespace
}  // namespace kiln::runtime
