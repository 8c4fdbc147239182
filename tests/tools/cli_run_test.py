"""kiln run. What agrees with the reference is a GPU's to show; here: how it fails without one, and
that it notices a wrong result, for which the fake driver (its kernels write nothing) serves."""

import os
import pathlib
import unittest

from support import PrebuiltTest


class Run(PrebuiltTest):
    def fake_gpu(self):
        """An environment whose libcuda.so.1 is the fake driver. NVRTC opens libcuda.so.1 too and does
        not survive meeting the fake, so what is launched must come from the cache."""
        driver = os.environ.get("KILN_FAKE_DRIVER", "")
        self.assertTrue(driver, "this build has no fake driver")
        folder = self.scratch / "driver"
        folder.mkdir(exist_ok=True)
        if not (folder / "libcuda.so.1").exists():
            (folder / "libcuda.so.1").symlink_to(driver)
        path = [str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {"LD_LIBRARY_PATH": ":".join(path), "KILN_CACHE_DIR": self.cache}

    def test_without_a_driver_it_fails_and_says_what_is_missing(self):
        if pathlib.Path("/dev/nvidiactl").exists():
            self.skipTest("this machine has a GPU")
        result = self.kiln("run", self.OP, code=1)
        self.assert_plain_complaint(result)
        self.assertIn("libcuda.so.1", result.stderr)
        self.assertNotIn("EngineOptions", result.stderr)

    def test_an_unknown_op_is_a_failure_that_names_near_matches(self):
        result = self.kiln("run", "n128k512_gemm_bf61", code=1)
        self.assert_plain_complaint(result)
        self.assertIn(self.OP, result.stderr)

    def test_an_output_that_was_not_written_disagrees_with_the_reference(self):
        report = self.kiln_json("run", self.OP, "--m", "3", code=1, env=self.fake_gpu())
        self.assertFalse(report["equal"])
        self.assertEqual(report["outputs"], [{"name": "out", "elements": 3 * 128, "different": 3 * 128}])
        result = self.kiln("run", self.OP, "--m", "3", code=1, env=self.fake_gpu())
        self.assertIn(f"{3 * 128} of {3 * 128} elements differ", result.stdout)
        self.assertIn("does not agree", result.stderr)

    def test_an_empty_batch_launches_nothing_and_succeeds(self):
        report = self.kiln_json("run", self.OP, "--m", "0", env=self.fake_gpu())
        self.assertTrue(report["equal"])
        self.assertEqual(report["outputs"], [{"name": "out", "elements": 0, "different": 0}])

    def test_every_op_can_be_run(self):
        for op in self.kiln_json("ops"):
            with self.subTest(op=op["name"]):
                if op["name"] == "flashmla_sched_meta":  # A schedule needs a partition.
                    refused = self.kiln("run", op["name"], "--m", "0", code=1, env=self.fake_gpu())
                    self.assertIn("meta must have a row for each partition, at least 1, found 0", refused.stderr)
                    continue
                report = self.kiln_json("run", op["name"], "--m", "0", env=self.fake_gpu())
                outputs = [a["name"] for a in op["args"] if a.get("access", "read") != "read"]
                self.assertEqual([o["name"] for o in report["outputs"]], outputs)
                self.assertTrue(report["equal"])

    def test_every_output_of_every_dtype_is_compared(self):
        self.kiln("prebuild", "--arch", self.ARCH, "--op", "mxfp8_quantize", "--cache", self.cache)
        run = ["run", "mxfp8_quantize", "--m", "3", "--dim", "k=64"]
        report = self.kiln_json(*run, code=1, env=self.fake_gpu())
        self.assertEqual(report["dims"], {"k": 64, "m": 3})
        self.assertEqual(report["dtypes"], {"x": "bf16", "q": "e4m3", "sf": "e8m0"})
        expected = [{"name": "q", "elements": 192, "different": 192}, {"name": "sf", "elements": 512, "different": 512}]
        self.assertEqual(report["outputs"], expected)
        report = self.kiln_json(*run, "--dtype", "q=u8", code=1, env=self.fake_gpu())
        self.assertEqual(report["dtypes"]["q"], "u8")

    def test_a_call_outside_the_contract_is_a_failure_that_names_it(self):
        result = self.kiln("run", "mxfp8_quantize", "--dim", "k=48", code=1, env=self.fake_gpu())
        self.assert_plain_complaint(result)
        self.assertIn("multiple of 32", result.stderr)

    def test_what_an_op_does_not_have_cannot_be_set(self):
        for option, wanted in [("--dim=n=3", "there are: m"), ("--dtype=y=f32", "there are: x, w, out")]:
            with self.subTest(option=option):
                result = self.kiln("run", self.OP, option, code=1)
                self.assert_plain_complaint(result)
                self.assertIn(wanted, result.stderr)

    def test_the_report_repeats_what_was_asked(self):
        report = self.kiln_json("run", self.OP, "--m", "0", "--seed", "7", "--pdl", "off", env=self.fake_gpu())
        self.assertEqual((report["op"], report["m"], report["seed"], report["pdl"]), (self.OP, 0, 7, False))


if __name__ == "__main__":
    unittest.main()
