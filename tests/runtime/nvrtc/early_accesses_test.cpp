#include "tests/runtime/nvrtc/early_accesses.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace kiln::test {
namespace {

using Lines = std::vector<std::string>;

// Parameters: 0 x, 1 weights (constant), 2 out, 3 a stride.
const PointerParams kParams{{1}, {0, 2}};

// An entry of this body, behind one whose name begins the same.
std::string entry(const std::string& body) {
  return ".visible .entry k2(\n.param .u64 k2_param_0\n)\n{\nld.global.f32 %f9, [%rd9];\nret;\n}\n"
         ".visible .entry k(\n\t.param .u64 k_param_0,\n\t.param .u64 k_param_1\n)\n"
         ".maxntid 128, 1, 1\n{\n\t.reg .b64 %rd<9>;\n"
         "\tld.param.u64 \t%rd1, [k_param_0];\n"
         "\tld.param.u64 \t%rd2, [k_param_1];\n"
         "\tld.param.u64 \t%rd3, [k_param_2];\n"
         "\tld.param.u32 \t%r1, [k_param_3];\n"
         "\tcvta.to.global.u64 \t%rd4, %rd1;\n"
         "\tcvta.to.global.u64 \t%rd5, %rd2;\n" +
         body + "\tret;\n}\n";
}

Lines scan(const std::string& body) {
  return early_accesses(entry(body), "k", kParams);
}

}  // namespace

TEST_CASE("Loads after the wait, and of constants before it, are as they should be") {
  CHECK(scan("mul.wide.s32 %rd6, %r1, 4;\n"
             "add.s64 %rd7, %rd5, %rd6;\n"
             "// begin inline asm\n"
             "ld.global.nc.L1::no_allocate.v4.u32 {%r2, %r3, %r4, %r5}, [%rd7+16];\n"
             "// end inline asm\n"
             "prefetch.global.L2 [%rd4];\n"
             "st.shared.u32 [%r9], %r2;\n"
             "ld.shared.u32 %r8, [%r9];\n"
             "griddepcontrol.wait;\n"
             "ld.global.u32 %r6, [%rd4];\n"
             "st.global.u32 [%rd3], %r6;\n") == Lines{});
}

TEST_CASE("A load before the wait is named unless all its pointers are constant") {
  CHECK(scan("ld.global.u32 %r6, [%rd4];\ngriddepcontrol.wait;\n") ==
        Lines{"ld.global.u32 %r6, [%rd4]"});
  CHECK(scan("ld.u32 %r6, [%rd1];\ngriddepcontrol.wait;\n") == Lines{"ld.u32 %r6, [%rd1]"});
  CHECK(scan("selp.b64 %rd6, %rd4, %rd5, %p1;\nld.global.u32 %r6, [%rd6];\n"
             "griddepcontrol.wait;\n") == Lines{"ld.global.u32 %r6, [%rd6]"});
  // An index that was loaded says nothing of where the load goes; a pointer that was, nothing good.
  CHECK(scan("ld.global.u64 %rd6, [%rd5];\nadd.s64 %rd7, %rd5, %rd6;\n"
             "ld.global.u32 %r6, [%rd7];\ngriddepcontrol.wait;\n") == Lines{});
  CHECK(scan("ld.global.u64 %rd6, [%rd5];\nld.global.u32 %r6, [%rd6];\ngriddepcontrol.wait;\n") ==
        Lines{"ld.global.u32 %r6, [%rd6]"});
}

TEST_CASE("Bulk and asynchronous copies are loads, and every early write is named") {
  CHECK(scan("cp.async.cg.shared.global [%r9], [%rd5], 16;\n"
             "cp.async.commit_group;\n"
             "griddepcontrol.wait;\n") == Lines{});
  CHECK(scan("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%rd4], "
             "%r1, [%r8];\ngriddepcontrol.wait;\n")
            .size() == 1);
  CHECK(scan("st.global.u32 [%rd5], %r1;\ngriddepcontrol.wait;\n").size() == 1);
  CHECK(scan("atom.global.add.u32 %r2, [%rd5], 1;\ngriddepcontrol.wait;\n").size() == 1);
}

TEST_CASE("A wait counts on the paths that pass it only") {
  const std::string load = "ld.global.u32 %r6, [%rd4];\n";
  CHECK(scan("@%p1 bra $L__BB0_2;\ngriddepcontrol.wait;\n$L__BB0_2:\n" + load).size() == 1);
  CHECK(scan("@%p1 griddepcontrol.wait;\n" + load).size() == 1);
  CHECK(scan("bra.uni $L__BB0_3;\n$L__BB0_1:\n" + load +
             "ret;\n$L__BB0_3:\ngriddepcontrol.wait;\nbra.uni $L__BB0_1;\n") == Lines{});
  CHECK(scan("@%p1 bra $L__BB0_1;\ngriddepcontrol.wait;\nbra.uni $L__BB0_2;\n$L__BB0_1:\n"
             "griddepcontrol.wait;\n$L__BB0_2:\n" +
             load) == Lines{});
  // A loop whose later part precedes the wait on the way round.
  CHECK(scan("$L__BB0_1:\n" + load + "@%p1 bra $L__BB0_1;\ngriddepcontrol.wait;\n").size() == 1);
}

TEST_CASE("Scopes of inline assembly are seen through") {
  CHECK(scan("{\n.reg .pred p;\nsetp.ne.u32 p, %r1, 0;\n@p ld.global.u32 %r6, [%rd4];\n}\n"
             "griddepcontrol.wait;\n") == Lines{"ld.global.u32 %r6, [%rd4]"});
}

TEST_CASE("An entry that is not there is not taken for a good one") {
  CHECK(early_accesses(entry(""), "other", kParams) == Lines{"no entry other"});
}

}  // namespace kiln::test
