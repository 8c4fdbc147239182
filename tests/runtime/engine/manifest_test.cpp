#include "runtime/manifest.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/trait_registry/sample_op.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::test {
namespace {

using runtime::Manifest;
using runtime::ManifestEntry;
using runtime::Resolved;

const std::string kOne =
    R"({"kiln_manifest": 1, "variants": [
{"op":"sample","kernel":"main","traits":{"ORDER":"ns::kPeer","PDL":"true","SPLIT":"2"},"target":"sm_90a"}
]}
)";

ManifestEntry one_entry() {
  return {"sample",
          "main",
          {{"SPLIT", "2"}, {"ORDER", "ns::kPeer"}, {"PDL", "true"}},
          parse_target("sm_90a")};
}

std::string problem(const std::string& json) {
  const Result<Manifest> parsed = Manifest::parse(json, "FILE");
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().code == ErrorCode::kInvalidArgument);
  return parsed.error().message;
}

// kOne with one part replaced by another.
std::string changed(const std::string& part, const std::string& by) {
  std::string text = kOne;
  const auto at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.replace(at, part.size(), by);
}

std::string reason(const registry::Registry& registry, ManifestEntry entry) {
  const Resolved resolved = runtime::resolve(Manifest{{std::move(entry)}}, registry);
  CHECK(resolved.variants.empty());
  REQUIRE(resolved.missing.size() == 1);
  return resolved.missing[0].reason;
}

}  // namespace

TEST_CASE("A manifest is one line a variant, sorted, whatever the order of insertion") {
  CHECK(Manifest().text() == "{\"kiln_manifest\": 1, \"variants\": [\n]}\n");
  CHECK(Manifest{{one_entry()}}.text() == kOne);
  ManifestEntry other = one_entry();
  other.op = "ample";
  Manifest forth;
  forth.variants.insert(one_entry());
  forth.variants.insert(other);
  Manifest back;
  back.variants.insert(other);
  back.variants.insert(one_entry());
  CHECK(forth.text() == back.text());
  CHECK(forth.text().find("\"ample\"") < forth.text().find("\"sample\""));
}

TEST_CASE("What was written is read back, and merging is the union") {
  CHECK(Manifest::parse(kOne, "FILE").value() == Manifest{{one_entry()}});
  CHECK(Manifest::parse(Manifest().text(), "FILE").value() == Manifest());
  ManifestEntry other = one_entry();
  other.target = parse_target("sm_100f");
  Manifest merged{{one_entry()}};
  merged.merge({{other, one_entry()}});
  CHECK(merged.variants == std::set<ManifestEntry>{one_entry(), other});
  CHECK(Manifest::parse(merged.text(), "FILE").value() == merged);
}

TEST_CASE("The same variants can be asked for on other targets") {
  const std::vector<Target> targets = {parse_target("sm_100a"), parse_target("sm_103a")};
  const Manifest moved = Manifest{{one_entry()}}.retargeted(targets);
  REQUIRE(moved.variants.size() == 2);
  CHECK(runtime::to_string(*moved.variants.begin()) ==
        "sample/main ORDER=ns::kPeer PDL=true SPLIT=2 sm_100a");
  CHECK(moved.variants.rbegin()->target == targets[1]);
}

TEST_CASE("What is no manifest is refused with its place") {
  CHECK(problem("") == "FILE: is no complete JSON: byte 1, after \"\"");
  CHECK(problem(kOne.substr(0, kOne.size() - 4)).find("FILE: is no complete JSON") == 0);
  CHECK(problem(kOne + "x").find("FILE: is no complete JSON") == 0);
  CHECK(problem("[]") ==
        "FILE: expected an object with \"kiln_manifest\" and \"variants\", found a list");
  CHECK(problem("{}") == "FILE: \"kiln_manifest\" is missing");
  CHECK(problem(R"({"kiln_manifest": 1})") == "FILE: \"variants\" is missing");
  CHECK(problem(R"({"variants": []})") == "FILE: \"kiln_manifest\" is missing");
  CHECK(problem(changed(": 1,", ": 2,")) ==
        "FILE: is a manifest of version 2; this Kiln reads version 1");
  CHECK(problem(changed(": 1,", ": \"1\",")) ==
        "FILE: expected 1 as \"kiln_manifest\", found the text \"1\"");
  CHECK(problem(changed(": 1,", ": 1.0,")).find("expected 1 as \"kiln_manifest\"") !=
        std::string::npos);
  CHECK(problem(changed(": 1,", ": -1,")).find("found -1") != std::string::npos);
  CHECK(problem(changed(": 1,", ": 1, \"more\": 2,")) == "FILE: the field \"more\" is unknown");
  CHECK(problem(changed(": 1,", ": 1, \"kiln_manifest\": 1,")) ==
        "FILE: \"kiln_manifest\" is given twice");
  CHECK(problem(R"({"kiln_manifest": 1, "variants": {}})") ==
        "FILE: expected a list as \"variants\", found an object");
  CHECK(problem(R"({"kiln_manifest": 1, "variants": [[]]})") ==
        "FILE: expected an object for each of \"variants\", found a list");
}

TEST_CASE("A wrong field of a variant is refused with the variant's number") {
  CHECK(problem(changed("\"op\":", "\"ops\":")) == "FILE, variant 1: the field \"ops\" is unknown");
  CHECK(problem(changed("\"op\":\"sample\",", "")) == "FILE, variant 1: \"op\" is missing");
  CHECK(problem(changed(",\"target\":\"sm_90a\"", "")) == "FILE, variant 1: \"target\" is missing");
  CHECK(problem(changed("\"sample\"", "null")) ==
        "FILE, variant 1: expected a text as \"op\", found null");
  CHECK(problem(changed("\"2\"", "2")) == "FILE, variant 1: expected a text as \"SPLIT\", found 2");
  CHECK(problem(changed("\"2\"", "{}")) ==
        "FILE, variant 1: expected a text as \"SPLIT\", found an object");
  CHECK(problem(changed("\"sm_90a\"", "\"x\", \"op\":\"y\"")).find("\"x\" is not a target") !=
        std::string::npos);
  CHECK(problem(changed("\"target\":", "\"op\":\"y\",\"target\":")) ==
        "FILE, variant 1: \"op\" is given twice");
  CHECK(problem(changed("\"SPLIT\":", "\"PDL\":\"false\",\"SPLIT\":")) ==
        "FILE, variant 1: the trait \"PDL\" is given twice");
  CHECK(problem(changed("{\"ORDER\":\"ns::kPeer\",\"PDL\":\"true\",\"SPLIT\":\"2\"}", "\"\"")) ==
        "FILE, variant 1: expected an object as \"traits\", found the text \"\"");
  const std::string second = kOne.substr(0, kOne.size() - 4) + ",\n{}\n]}\n";
  CHECK(problem(second) == "FILE, variant 2: \"op\" is missing");
}

TEST_CASE("Names of any length and any depth cost no more than the file") {
  CHECK(problem(changed("sample", std::string(2000, 'x'))).find("a text of 2000 bytes") !=
        std::string::npos);
  CHECK(problem(std::string(1 << 20, '[')).find("found a list") != std::string::npos);
  std::string traits;
  for (int i = 0; i < 100; ++i) {
    traits += "\"T" + std::to_string(i) + "\":\"1\",";
  }
  CHECK(problem(changed("\"ORDER\":", traits + "\"ORDER\":")).find("too many traits") !=
        std::string::npos);
}

TEST_CASE("A manifest is read from a regular file, by any path to it") {
  const TempDir dir;
  cache::PosixFileSystem disk;
  std::ofstream(dir.str("m.json")) << kOne;
  std::filesystem::create_symlink("m.json", dir.str("link"));
  CHECK(Manifest::read(disk, dir.str("m.json")).value() == Manifest{{one_entry()}});
  CHECK(Manifest::read(disk, dir.str("link")).value() == Manifest{{one_entry()}});
  REQUIRE(mkfifo(dir.str("pipe").c_str(), 0600) == 0);
  for (const std::string name : {"absent", "pipe", "."}) {
    const Result<Manifest> read = Manifest::read(disk, dir.str(name));
    REQUIRE_FALSE(read);
    CHECK(read.error().code == ErrorCode::kIo);
    CHECK(read.error().message.find("the manifest '" + dir.str(name) + "' cannot be read") == 0);
  }
  std::ofstream(dir.str("large"));
  std::filesystem::resize_file(dir.str("large"), Manifest::kMostBytes + 1);
  CHECK(Manifest::read(disk, dir.str("large")).error().message.find("larger than 64 MiB") !=
        std::string::npos);
}

TEST_CASE("Every variant of every op is found again by its entry, and no other") {
  registry::Registry registry;
  REQUIRE(registry.add(sample_op()));
  Manifest manifest;
  std::set<std::string> names;
  for (const registry::BoundOp* bound : registry.all()) {
    for (const std::string target : {"sm_90a", "sm_100a"}) {
      for (const Variant& variant : registry::enumerate(*bound, parse_target(target))) {
        CHECK(manifest.variants.insert(ManifestEntry::of(variant)).second);
        names.insert(to_string(variant));
      }
    }
  }
  const Resolved resolved =
      runtime::resolve(Manifest::parse(manifest.text(), "FILE").value(), registry);
  CHECK(resolved.missing.empty());
  CHECK(resolved.variants.size() == names.size());
  for (const Variant& variant : resolved.variants) {
    CHECK(names.erase(to_string(variant)) == 1);
  }
}

TEST_CASE("A trait that a kernel does not use is no part of its entry") {
  registry::Registry registry;
  Op op = sample_op();
  op.kernels.push_back(op.kernels[0]);
  op.kernels[0].instantiation = "ns::sample<{SPLIT}>";
  op.kernels[1].name = "second";
  REQUIRE(registry.add(std::move(op)));
  Variant variant = registry::enumerate(**registry.find("sample"), parse_target("sm_90a")).front();
  const ManifestEntry entry = ManifestEntry::of(variant);
  CHECK(entry.traits == std::map<std::string, std::string>{{"SPLIT", "1"}});
  variant.traits.set("ORDER", 1);
  CHECK(ManifestEntry::of(variant) == entry);
  CHECK(runtime::resolve(Manifest{{entry}}, registry).variants.size() == 1);
}

TEST_CASE("An entry that no longer exists says what is gone and what there is") {
  registry::Registry registry;
  Op op = sample_op();
  op.exists = [](const Traits& traits, const Target&) {
    return traits["SPLIT"] != 3 || traits["ORDER"] == 0;
  };
  REQUIRE(registry.add(std::move(op)));
  ManifestEntry entry = one_entry();
  entry.op = "samplo";
  CHECK(reason(registry, entry) == "no op is named \"samplo\"; did you mean \"sample\"?");
  entry = one_entry();
  entry.kernel = "other";
  CHECK(reason(registry, entry) == "the op has no kernel other; it has main");
  entry = one_entry();
  entry.traits["SPLIT"] = "4";
  CHECK(reason(registry, entry) == "the trait SPLIT has no value 4; it has 1, 2, 3");
  entry = one_entry();
  entry.traits.erase("PDL");
  CHECK(reason(registry, entry) == "no value is given for the trait PDL");
  entry = one_entry();
  entry.traits["MORE"] = "1";
  CHECK(reason(registry, entry) == "the kernel has no trait MORE; it has SPLIT, ORDER, PDL");
  entry = one_entry();
  entry.target = parse_target("sm_80");
  CHECK(reason(registry, entry).find("needs compute capability 9.0 or newer") != std::string::npos);
  entry = one_entry();
  entry.traits["SPLIT"] = "3";
  entry.traits["ORDER"] = "ns::kFast";
  CHECK(reason(registry, entry) == "this combination of traits does not exist for the target");
}

}  // namespace kiln::test
