#include "cache/writer.hpp"

#include <set>
#include <string>

#include <unistd.h>

#include "tests/support/catch.hpp"

namespace kiln::cache {

TEST_CASE("Temporary names tell hosts, processes and writers apart (field report 5)") {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    names.insert(temporary_name(this_writer()));
  }
  CHECK(names.size() == 1000);
  CHECK(names.begin()->find("." + std::to_string(getpid()) + ".") != std::string::npos);
  char host[65] = {};
  REQUIRE(gethostname(host, 64) == 0);
  CHECK(names.begin()->substr(0, 1) == std::string(host).substr(0, 1));
  CHECK(names.begin()->find('/') == std::string::npos);
}

TEST_CASE(
    "Writers of one pid on two hosts, or of one host name and pid, have different names (field "
    "report 8)") {
  Writer a = this_writer();
  Writer b = a;
  b.host = "other";
  CHECK(temporary_name(a) != temporary_name(b));
  // Two containers may share both; each asked the kernel for its random part.
  const Writer c = this_writer();
  CHECK(c.host == a.host);
  CHECK(c.pid == a.pid);
  CHECK(temporary_name(a) != temporary_name(c));
}

TEST_CASE("Only names of the temporary grammar are temporary names") {
  CHECK(is_temporary_name(temporary_name(this_writer())));
  CHECK(is_temporary_name("host.1.0123456789abcdef.tmp"));
  CHECK(is_temporary_name("a-B_0.4194304.ffffffffffffffff.tmp"));
  for (const char* name :
       {"", ".tmp", "tmp", "..tmp", "...tmp", "host.tmp", "host.1.tmp",
        "host.1.0123456789abcde.tmp", "host.1.0123456789abcdef0.tmp", "host.1.0123456789ABCDEF.tmp",
        "host.x.0123456789abcdef.tmp", "host..0123456789abcdef.tmp", ".1.0123456789abcdef.tmp",
        "a.b.1.0123456789abcdef.tmp", "a b.1.0123456789abcdef.tmp", "host.1.0123456789abcdef",
        "host.1.0123456789abcdef.tmpx", "host.1.0123456789abcdef.cubin"}) {
    INFO(name);
    CHECK_FALSE(is_temporary_name(name));
  }
}

}  // namespace kiln::cache
