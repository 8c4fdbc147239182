#include "cache/explain.hpp"

#include <fstream>
#include <string>
#include <vector>

#include "tests/cache/samples.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache::test {
namespace {

struct Headers {
  std::vector<std::pair<std::string, std::string>> files;
};

SourceKey source(const std::string& target, const std::string& code, const Headers& headers = {},
                 std::uint32_t schema = 1) {
  KeyWriter writer("test.source", schema);
  writer.text("target", target).text("template", code);
  for (const auto& [name, text] : headers.files) {
    writer.text("header name", name).text("header", text);
  }
  return {target, std::move(writer).take()};
}

TEST_CASE("Equal materials do not differ") {
  CHECK(differences(source("sm_90a", "x").material, source("sm_90a", "x").material).empty());
}

TEST_CASE("A part that differs is named with both values (field report 59)") {
  const auto found = differences(source("sm_90a", "x").material, source("sm_100a", "x").material);
  CHECK(found == std::vector<KeyDifference>{{"target", "sm_90a", "sm_100a"}});
}

TEST_CASE("A file's text is shown by its size and digest, and goes by its name") {
  const auto asked = source("sm_90a", "x", {{{"a.cuh", "int a;\n"}, {"b.cuh", "int b;\n"}}});
  const auto stored = source("sm_90a", "x", {{{"a.cuh", "int A;\n"}, {"b.cuh", "int b;\n"}}});
  const auto found = differences(asked.material, stored.material);
  REQUIRE(found.size() == 1);
  CHECK(found[0].field == "header a.cuh");
  CHECK(found[0].asked == "7 bytes, XXH3-128 " + digest("int a;\n").hex());
  CHECK(found[0].stored == "7 bytes, XXH3-128 " + digest("int A;\n").hex());
}

TEST_CASE("One more header is one difference, wherever it stands") {
  const auto asked = source("sm_90a", "x", {{{"a.cuh", "a"}, {"b.cuh", "b"}, {"c.cuh", "c"}}});
  const auto stored = source("sm_90a", "x", {{{"b.cuh", "b"}, {"c.cuh", "c"}}});
  CHECK(differences(asked.material, stored.material) ==
        std::vector<KeyDifference>{{"header a.cuh", "a", "absent"}});
  CHECK(differences(stored.material, asked.material) ==
        std::vector<KeyDifference>{{"header a.cuh", "absent", "a"}});
}

TEST_CASE("Another schema version, another order and no key at all are differences too") {
  const auto schema =
      differences(source("sm_90a", "x", {}, 2).material, source("sm_90a", "x").material);
  CHECK(schema == std::vector<KeyDifference>{{"schema of test.source", "2", "1"}});
  const auto ab = source("sm_90a", "x", {{{"a", "1"}, {"b", "2"}}});
  const auto ba = source("sm_90a", "x", {{{"b", "2"}, {"a", "1"}}});
  REQUIRE(differences(ab.material, ba.material).size() == 1);
  CHECK(differences(ab.material, ba.material)[0].field == "order of fields");
  REQUIRE(differences(ab.material, "damaged").size() == 1);
  CHECK(differences(ab.material, "damaged")[0].field == "key");
}

TEST_CASE("The nearest entry is of the same label, then of the fewest differences") {
  const kiln::test::TempDir dir;
  StoreOptions options;
  options.root.option = dir.str("root");
  Store store(options);
  const auto publish = [&](const SourceKey& key, const std::string& label,
                           const ToolchainKey& toolchain = sample_toolchain()) {
    Entry entry = sample_entry(key, toolchain);
    entry.label = label;
    REQUIRE(store.publish(entry));
  };
  const ToolchainKey toolchain = sample_toolchain();
  CHECK_FALSE(Explainer(store).nearest(source("sm_90a", "x"), "one", &toolchain));

  publish(source("sm_90a", "other"), "one", sample_toolchain(12, 3, "old"));
  publish(source("sm_90a", "y"), "two");
  const Explainer explainer(store);
  const auto by_label = explainer.nearest(source("sm_90a", "x"), "one", &toolchain);
  REQUIRE(by_label);
  CHECK(by_label->entry.label == "one");
  CHECK(by_label->differences ==
        std::vector<KeyDifference>{{"template", "x", "other"}, {"build", "a", "old"}});
  const auto by_count = explainer.nearest(source("sm_90a", "x"), "three", &toolchain);
  REQUIRE(by_count);
  CHECK(by_count->entry.label == "two");
  const auto any_toolchain = explainer.nearest(source("sm_90a", "other"), "one", nullptr);
  REQUIRE(any_toolchain);
  CHECK(any_toolchain->differences.empty());
}

TEST_CASE("A bad entry of the very key is the nearest") {
  const kiln::test::TempDir dir;
  StoreOptions options;
  options.root.option = dir.str("root");
  Store store(options);
  REQUIRE(store.publish(sample_entry(source("sm_90a", "x"))));
  const std::string path = store.list().at(0).path;
  std::ofstream(path, std::ios::trunc) << "no entry";
  REQUIRE(store.publish(sample_entry(source("sm_90a", "y"))));
  const auto nearest = Explainer(store).nearest(source("sm_90a", "x"), "op A=1 sm_90a", nullptr);
  REQUIRE(nearest);
  CHECK(nearest->entry.path == path);
  CHECK_FALSE(nearest->entry.ok);
  CHECK_FALSE(nearest->entry.problem.empty());
}

}  // namespace
}  // namespace kiln::cache::test
