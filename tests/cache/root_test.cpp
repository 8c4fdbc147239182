#include "cache/root.hpp"

#include "tests/support/catch.hpp"

namespace kiln::cache {

using Origin = RootChoice::Origin;

TEST_CASE("The cache root is the first that is set") {
  RootInputs inputs{"/option", "/env", "/xdg", "/home/u", "/tmp"};
  CHECK(choose_root(inputs).path == "/option");
  CHECK(choose_root(inputs).origin == Origin::kOption);
  CHECK(choose_root(inputs).named());

  inputs.option = "";
  CHECK(choose_root(inputs).path == "/env");
  CHECK(choose_root(inputs).origin == Origin::kEnvironment);
  CHECK(choose_root(inputs).named());
  CHECK(choose_root(inputs).why.find("KILN_CACHE_DIR") != std::string::npos);

  inputs.kiln_cache_dir = "";
  CHECK(choose_root(inputs).path == "/xdg/kiln");
  CHECK(choose_root(inputs).origin == Origin::kXdg);
  CHECK_FALSE(choose_root(inputs).named());

  inputs.xdg_cache_home = "";
  CHECK(choose_root(inputs).path == "/home/u/.cache/kiln");
  CHECK(choose_root(inputs).origin == Origin::kHome);
  CHECK_FALSE(choose_root(inputs).named());

  inputs.home = "";
  CHECK(choose_root(inputs).path.empty());
  CHECK(choose_root(inputs).origin == Origin::kNone);
  CHECK_FALSE(choose_root(inputs).named());
}

TEST_CASE("A default root is never found through the working directory (field report 150)") {
  RootInputs inputs;
  inputs.xdg_cache_home = "relative";
  inputs.home = ".";
  CHECK(choose_root(inputs).origin == Origin::kNone);
  inputs.home = "/home/u";
  CHECK(choose_root(inputs).path == "/home/u/.cache/kiln");
}

TEST_CASE("The fallback root's name holds the user's number (field reports 31 and 35)") {
  RootInputs inputs;
  inputs.trust.uid = 4242;
  CHECK(fallback_root(inputs) == "/tmp/kiln-4242");
  inputs.tmpdir = "/scratch";
  CHECK(fallback_root(inputs) == "/scratch/kiln-4242");
  inputs.tmpdir = "scratch";
  CHECK(fallback_root(inputs) == "/tmp/kiln-4242");
}

}  // namespace kiln::cache
