#include "runtime/nvrtc/source_key.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::runtime {
namespace {

registry::CompileUnit unit() {
  registry::CompileUnit unit;
  unit.label = "scale N=3 sm_90a";
  unit.target = {9, 0, TargetSuffix::kArch};
  unit.main = {"scale.cuh", "#include \"a.cuh\"\n#include \"b.cuh\"\n"};
  unit.headers = {{"a.cuh", "// a"}, {"b.cuh", "// b"}};
  unit.name_expression = "scale<3>";
  unit.options = {"-DA=1", "-DB=2"};
  return unit;
}

TEST_CASE("A known unit has a known key") {
  const cache::SourceKey key = source_key(unit());
  CHECK(key.target == "sm_90a");
  CHECK(key.digest == cache::digest(key.material));
  // Changes only together with kSourceKeyVersion: every cache in the field turns into misses.
  CHECK(kSourceKeyVersion == 1);
  CHECK(key.digest.hex() == "9e20994443b3b7fef365b8779a6e4ae1");
}

TEST_CASE("A key's material can be read back, field by field") {
  const auto fields = cache::parse_key(source_key(unit()).material);
  REQUIRE(fields);
  std::vector<std::string> names;
  for (const cache::KeyField& field : *fields) {
    names.push_back(field.name);
  }
  CHECK(names == std::vector<std::string>{"kiln.source", "target", "options", "instantiation",
                                          "template name", "template", "header name", "header",
                                          "header name", "header"});
}

TEST_CASE("Everything that can change the code changes the key (field reports 41 and 43)") {
  const std::vector<std::function<void(registry::CompileUnit&)>> changes = {
      [](auto& u) { u.target.suffix = TargetSuffix::kBase; },
      [](auto& u) { u.target.minor = 3; },
      [](auto& u) { u.name_expression = "scale<4>"; },
      [](auto& u) { u.options.push_back("--use_fast_math"); },
      [](auto& u) { u.options.pop_back(); },
      [](auto& u) { std::swap(u.options[0], u.options[1]); },
      [](auto& u) { u.main.text += " "; },
      [](auto& u) { u.main.name = "other.cuh"; },
      [](auto& u) { u.headers[0].text = "// c"; },
      [](auto& u) { u.headers[0].name = "c.cuh"; },
      [](auto& u) { std::swap(u.headers[0].text, u.headers[1].text); },
      [](auto& u) { u.headers.pop_back(); },
      // Text that moves across a border is still another unit.
      [](auto& u) {
        u.headers[0].text += "x";
        u.headers[1].text.erase(0, 1);
      },
      [](auto& u) { u.options = {"-DA=1-DB=2"}; },
  };
  std::set<std::string> digests = {source_key(unit()).digest.hex()};
  for (const auto& change : changes) {
    registry::CompileUnit changed = unit();
    change(changed);
    digests.insert(source_key(changed).digest.hex());
  }
  CHECK(digests.size() == changes.size() + 1);
}

TEST_CASE("Every compile names its target, looks for no file and reports what ptxas says") {
  CHECK(compile_options(unit()) ==
        std::vector<std::string>{"--gpu-architecture=sm_90a", "--no-source-include",
                                 "--ptxas-options=-v", "-DA=1", "-DB=2"});
}

TEST_CASE("What a unit is called in messages does not change its key") {
  registry::CompileUnit renamed = unit();
  renamed.label = "something else";
  CHECK(source_key(renamed).material == source_key(unit()).material);
}

}  // namespace
}  // namespace kiln::runtime
