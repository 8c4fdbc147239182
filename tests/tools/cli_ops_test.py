"""kiln ops."""

import unittest

from support import REPOSITORY, KilnTest

GEMMS = ["n128k512_gemm_bf16", "n32k5120_gemm_bf16"]


class Ops(KilnTest):
    def test_json_is_a_list_of_described_ops(self):
        ops = {op["name"]: op for op in self.kiln_json("ops")}
        for name in GEMMS:
            op = ops[name]
            self.assertEqual(op["family"], "gemm")
            self.assertTrue(op["summary"])
            self.assertEqual([arg["name"] for arg in op["args"]], ["x", "w", "out"])
            self.assertEqual([arg["constant"] for arg in op["args"]], [False, True, False])
            self.assertEqual([arg["access"] for arg in op["args"]], ["read", "read", "write"])
            self.assertEqual(op["args"][0]["layout"], "row_strided")
            self.assertEqual(op["args"][0]["alignment"], 32)
            traits = {trait["name"]: trait["values"] for trait in op["traits"]}
            self.assertEqual(traits["M_SPLIT"], [str(n) for n in range(1, 9)])
            self.assertEqual(sorted(traits["PDL"]), ["false", "true"])

    def test_archs_are_those_that_the_op_serves(self):
        for op in self.kiln_json("ops"):
            for arch in ["sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103a", "sm_120", "sm_120a"]:
                self.assertIn(arch, op["archs"])
            self.assertNotIn("sm_80", op["archs"])

    def test_shapes_name_their_symbols(self):
        ops = {op["name"]: op for op in self.kiln_json("ops")}
        shapes = [arg["shape"] for arg in ops["n128k512_gemm_bf16"]["args"]]
        self.assertEqual(shapes, [["m", 512], [128, 512], ["m", 128]])

    def test_an_op_names_its_sources_and_whether_it_may_need_a_workspace(self):
        ops = {op["name"]: op for op in self.kiln_json("ops")}
        self.assertEqual(ops["rmsnorm"]["min_compute_capability"], 90)
        self.assertFalse(ops["rmsnorm"]["workspace"])
        self.assertTrue(ops["row_argmax"]["workspace"])
        for op in ops.values():
            self.assertTrue(op["sources"])
            self.assertEqual(len(op["sources"]), len(set(op["sources"])))
            for source in op["sources"]:
                self.assertTrue((REPOSITORY / "kernel_templates" / source).is_file(), source)

    def test_text_names_every_op(self):
        text = self.kiln("ops").stdout
        for name in GEMMS:
            self.assertIn(name, text)

    def test_named_ops_are_described_with_their_arguments(self):
        text = self.kiln("ops", "rmsnorm", "n32*").stdout
        self.assertEqual([line.split()[0] for line in text.splitlines() if line[0] != " "], ["n32k5120_gemm_bf16", "rmsnorm"])
        self.assertIn("    x: bf16 [m, k], read; ", text)
        self.assertIn("    eps: f32; ", text)
        self.assertEqual([op["name"] for op in self.kiln_json("ops", "row_argmax")], ["row_argmax"])

    def test_a_name_that_no_op_has_is_an_error_that_names_a_near_one(self):
        result = self.kiln("ops", "rmsnrm", code=1)
        self.assert_plain_complaint(result)
        self.assertIn('no op is named "rmsnrm"; did you mean "rmsnorm"?', result.stderr)

    def test_listing_ops_needs_no_compiler_and_writes_nothing(self):
        """Field report 34."""
        self.kiln("ops", env={"KILN_NVRTC": "/nonexistent/libnvrtc.so"})
        self.assertEqual(list(self.home.rglob("*")), [])


if __name__ == "__main__":
    unittest.main()
