#include "trait_registry/sources.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::registry {
namespace {

std::vector<std::string> names(const std::vector<SourceFile>& files) {
  std::vector<std::string> result;
  for (const SourceFile& file : files) {
    result.push_back(file.name);
  }
  return result;
}

TEST_CASE("Every kernel template is embedded, byte for byte, and nothing else") {
  namespace fs = std::filesystem;
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(KILN_TEMPLATE_ROOT)) {
    if (!entry.is_regular_file() || entry.path().extension() != ".cuh") {
      continue;
    }
    ++files;
    const std::string name = entry.path().lexically_relative(KILN_TEMPLATE_ROOT).string();
    CAPTURE(name);
    const EmbeddedSource* embedded = find_embedded(name);
    REQUIRE(embedded != nullptr);
    std::ifstream stream(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    CHECK(embedded->text == text.str());
  }
  CHECK(files > 0);
  CHECK(embedded_sources().size() == files);
}

TEST_CASE("Embedded names are sorted, and a name that is none is not found") {
  const std::span<const EmbeddedSource> all = embedded_sources();
  for (std::size_t i = 1; i < all.size(); ++i) {
    CHECK(all[i - 1].name < all[i].name);
  }
  CHECK(find_embedded("prelude/types.cuh") != nullptr);
  CHECK(find_embedded("types.cuh") == nullptr);
  CHECK(find_embedded("") == nullptr);
}

// NVRTC then needs no header on disk, and the set of sources is closed.
TEST_CASE("What an embedded file is said to include is what it includes, all of it embedded") {
  for (const EmbeddedSource& source : embedded_sources()) {
    std::string includes;
    for (const IncludeDirective& include : scan_includes(source.text)) {
      CAPTURE(std::string(source.name), include.line);
      CHECK(include.form == IncludeDirective::Form::kQuoted);
      CHECK_FALSE(include.probe);
      CHECK(find_embedded(include.name) != nullptr);
      includes += std::string(include.name) + " ";
    }
    CHECK(source.includes == includes);
  }
}

TEST_CASE("The closure holds what is included, transitively, sorted and once, cycles or not") {
  const std::vector<SourceFile> sources = {{"z.cuh", "#include \"a.cuh\"\n#include \"m.cuh\"\n"},
                                           {"a.cuh", "#include \"z.cuh\"\n"},
                                           {"m.cuh", ""},
                                           {"unused.cuh", ""}};
  const SourceFile main{"main.cu", "#include \"z.cuh\"\n#include \"m.cuh\"\n"};
  const Result<std::vector<SourceFile>> closure = include_closure(main, sources);
  REQUIRE(closure);
  CHECK(names(*closure) == std::vector<std::string>{"a.cuh", "m.cuh", "z.cuh"});
  CHECK((*closure)[0].text == "#include \"z.cuh\"\n");
}

TEST_CASE("A main file that a header includes again is among the headers") {
  const std::vector<SourceFile> sources = {{"main.cu", "#include \"a.cuh\"\n"},
                                           {"a.cuh", "#include \"main.cu\"\n"}};
  const Result<std::vector<SourceFile>> closure = include_closure(sources[0], sources);
  REQUIRE(closure);
  CHECK(names(*closure) == std::vector<std::string>{"a.cuh", "main.cu"});
}

TEST_CASE("An angle include counts when it names one of the files, and is left alone otherwise") {
  const std::vector<SourceFile> sources = {{"a.cuh", ""}};
  const SourceFile main{"main.cu", "#include <a.cuh>\n#include <cuda/std/array>\n"};
  const Result<std::vector<SourceFile>> closure = include_closure(main, sources);
  REQUIRE(closure);
  CHECK(names(*closure) == std::vector<std::string>{"a.cuh"});
}

TEST_CASE("What is probed for is in the closure when it is there, and no error when it is not") {
  const std::vector<SourceFile> sources = {{"a.cuh", ""}};
  const SourceFile main{"main.cu",
                        "#if __has_include(\"a.cuh\") || __has_include(\"b.cuh\")\n#endif\n"};
  const Result<std::vector<SourceFile>> closure = include_closure(main, sources);
  REQUIRE(closure);
  CHECK(names(*closure) == std::vector<std::string>{"a.cuh"});
  CHECK_FALSE(include_closure({"main.cu", "#if __has_include(NAME)\n#endif\n"}, sources));
}

TEST_CASE("A quoted include that is nowhere is an error with file and line, also deep down") {
  const std::vector<SourceFile> sources = {{"a.cuh", "\n#include \"gone.cuh\"\n"}};
  const SourceFile main{"main.cu", "#include \"a.cuh\"\n"};
  const Result<std::vector<SourceFile>> closure = include_closure(main, sources);
  REQUIRE_FALSE(closure);
  CHECK(
      closure.error().message ==
      "\"a.cuh\" line 2 includes \"gone.cuh\", which is neither among the op's sources nor one of "
      "Kiln's own files");
}

TEST_CASE("Two templates do not share what only one of them includes") {
  const std::vector<SourceFile> sources = {
      {"one.cu", "#include \"shared.cuh\"\n#include \"one.cuh\"\n"},
      {"two.cu", "#include \"shared.cuh\"\n"},
      {"one.cuh", ""},
      {"shared.cuh", ""}};
  CHECK(names(*include_closure(sources[1], sources)) == std::vector<std::string>{"shared.cuh"});
}

}  // namespace
}  // namespace kiln::registry
