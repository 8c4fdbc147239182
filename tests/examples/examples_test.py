"""The examples run, with the fake driver: they compile, launch, capture and replay; what a kernel would compute is not seen."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="kiln-examples-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        shutil.copy(os.environ["KILN_FAKE_DRIVER"], self.scratch / "libcuda.so.1")

    def run_example(self, name, *arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("KILN_") or k == "KILN_NVRTC"}
        environment |= {"KILN_CACHE_DIR": str(self.scratch / "cache"), "LD_LIBRARY_PATH": str(self.scratch),
                        "KILN_COMPILE_WORKER": os.environ["KILN_WORKER"]}
        done = subprocess.run([os.environ[f"KILN_EXAMPLE_{name}"], *arguments], env=environment, capture_output=True, text=True,
                              timeout=300, check=False)
        if "no usable NVRTC" in done.stderr or "compiler_unavailable" in done.stderr:
            self.skipTest("there is no NVRTC here")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_c(self):
        self.assertIn("compiled: 1, from the cache: 0", self.run_example("C"))
        self.assertIn("compiled: 0, from the cache: 1", self.run_example("C"))

    def test_custom_op_is_short_and_runs(self):
        lines = (ROOT / "examples/custom_op/main.cpp").read_text(encoding="utf-8").splitlines()
        self.assertLess(len(lines), 60)
        self.assertIn("y[0] = ", self.run_example("CUSTOM_OP"))

    def test_engine(self):
        output = self.run_example("ENGINE", "10")
        self.assertRegex(output, r"warm-up: [1-9]\d* kernels compiled, [1-9]\d* libraries loaded")
        self.assertRegex(output, r"10 steps of 32 kernels: \d+ kernels per second")
        self.assertIn("warm-up: 0 kernels compiled", self.run_example("ENGINE", "10"))

    def test_without_a_driver_they_say_so(self):
        (self.scratch / "libcuda.so.1").write_text("no library\n", encoding="utf-8")
        for name in ("C", "CUSTOM_OP", "ENGINE"):
            done = subprocess.run([os.environ[f"KILN_EXAMPLE_{name}"]], env={"LD_LIBRARY_PATH": str(self.scratch)}, capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 77)
            self.assertIn("needs an NVIDIA driver", done.stderr)


if __name__ == "__main__":
    unittest.main()
