#include "tools/bench/peer_table.hpp"

#include <string>

#include <kiln/error.hpp>

#include "tests/support/catch.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::bench {
namespace {

constexpr const char* kText = R"(Words | with a bar.

| op | shape | peer device us | peer host us | torch device us | floor us |
|---|---|---|---|---|---|
| F.linear | x[1,512] | - | - | 2.87 | 0.50 |
| norm | x[8,64] | 2.49 | 38.03 | - | 0.50 |
| gather | n=16 | 1.28 | - | - | 0.50 |

| op | m | PyTorch F.linear us | peer mapping, PDL off us | peer mapping, PDL on us |
|---|---|---|---|---|
| gemm | 8 | 2.87 | 1.44 | 1.17 |

| what | cost |
|---|---|
| norm | 9 us |
| one graph node, empty kernel, device | 0.54 us; 0.43 us when each node waits |
)";

std::string refusal(const std::string& text) {
  try {
    PeerTable::parse(text);
  } catch (const Error& error) {
    return error.what();
  }
  FAIL("the table was taken");
  return {};
}

}  // namespace

TEST_CASE("Both kinds of peer table are read, and other tables and words are not") {
  const PeerTable table = PeerTable::parse(kText);
  const auto norm = table.find("norm", "x[8,64]");
  REQUIRE(norm);
  CHECK(*norm->device(true) == 2.49);
  CHECK(*norm->device(false) == 2.49);
  CHECK(*norm->host_us == 38.03);
  CHECK_FALSE(table.find("gather", "n=16")->host_us);
  const auto gemm = table.find("gemm", "m=8");
  REQUIRE(gemm);
  CHECK(*gemm->device(true) == 1.17);
  CHECK(*gemm->device(false) == 1.44);
  CHECK_FALSE(table.find("F.linear", "x[1,512]"));
  CHECK_FALSE(table.find("norm", "x[8,65]"));
  CHECK_FALSE(table.find("norm", "9 us"));
}

TEST_CASE("The empty graph node is read with and without PDL") {
  const PeerTable table = PeerTable::parse(kText);
  CHECK(*table.empty_node_us(false) == 0.54);
  CHECK(*table.empty_node_us(true) == 0.43);
}

TEST_CASE("A table without the empty node is taken, and has none") {
  const PeerTable table =
      PeerTable::parse("| op | shape | peer us |\n|---|---|---|\n| a | b | 1 |\n");
  CHECK(*table.find("a", "b")->device(true) == 1);
  CHECK_FALSE(table.empty_node_us(true));
}

TEST_CASE("A text without a peer table, and a time that is none, are refused") {
  CHECK(refusal("nothing").find("no table of peer times") != std::string::npos);
  const std::string bad = refusal("| op | shape | peer us |\n|---|---|---|\n| a | b | fast |\n");
  CHECK(bad.find("\"fast\" in the row of a b") != std::string::npos);
  CHECK(refusal("| op | shape | peer us |\n|---|---|---|\n| a | b | -1 |\n").find("\"-1\"") !=
        std::string::npos);
}

TEST_CASE("A file that cannot be read is an error that names it") {
  try {
    PeerTable::read("/nonexistent/peers.md");
    FAIL("it was read");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kIo);
    CHECK(std::string(error.what()).find("/nonexistent/peers.md") != std::string::npos);
  }
}

TEST_CASE("The project's own table has the shapes of every op that it lists") {
  const PeerTable table = PeerTable::read(KILN_PEER_TABLE);
  CHECK(table.empty_node_us(true));
  CHECK(table.empty_node_us(false));
  const std::map<std::string, int> listed = {
      {"n128k512_gemm_bf16", 5},    {"n32k5120_gemm_bf16", 5}, {"hc_combine_norm", 7},
      {"hc_combine_norm_mxfp8", 3}, {"rmsnorm_mxfp8", 4},      {"mhc_post_split_h", 4},
      {"rmsnorm_fp32", 3}};
  for (const auto& [op, count] : listed) {
    INFO(op);
    int found = 0;
    for (const TimedShape& shape : find_case(op).shapes) {
      found += table.find(op, shape.text) ? 1 : 0;
    }
    CHECK(found == count);
  }
}

}  // namespace kiln::tools::bench
