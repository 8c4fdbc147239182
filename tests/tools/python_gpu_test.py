"""scripts/python_gpu.sh runs its parts over a packed folder and sums up what they say, with stand-ins for Python and the GPU."""

import shutil
import subprocess
import unittest

from support import REPOSITORY, ScratchTest

# Notes how it was called; fails where the arguments hold what $FAILING names.
PYTHON = """echo "$PYTHONPATH | $KILN_CACHE_DIR | $*" >> "$CALLS"
case "$*" in
  *call_cost*) echo "C++ engine.launch   4000" ;;
  *decode_step*) echo "eager   50.0 us a step" ;;
  *pytest*) echo "12 passed in 3 s" ;;
esac
[ -z "$FAILING" ] || [[ "$*" != *"$FAILING"* ]]"""


class PythonGpu(ScratchTest):
    def setUp(self):
        super().setUp()
        for folder in ["pack/python/wheels", "pack/python/bench", "pack/python/tests", "pack/cache/v1", "bin"]:
            (self.scratch / folder).mkdir(parents=True)
        shutil.copy(REPOSITORY / "scripts/python_gpu.sh", self.scratch / "pack/python")
        for wheel in ["kiln-1.whl", "apache_tvm_ffi-1.whl"]:
            (self.scratch / "pack/python/wheels" / wheel).touch()
        self.program("bin/nvidia-smi", 'echo "A GPU, 580.1"')
        self.program("bin/python3", PYTHON)

    def program(self, name, body):
        path = self.scratch / name
        path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def session(self, *parts, failing="", code=0):
        calls = self.scratch / "calls"
        result = subprocess.run(
            [self.scratch / "pack/python/python_gpu.sh", self.scratch / "results", *parts],
            env={"PATH": f"{self.scratch}/bin:/usr/bin:/bin", "CALLS": str(calls), "FAILING": failing},
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.calls = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        return result

    def test_all_parts_run_on_the_installed_wheel_and_a_copy_of_the_cache(self):
        table = self.session().stdout
        install, *others = self.calls
        self.assertIn("kiln-1.whl", install)
        self.assertIn("apache_tvm_ffi-1.whl", install)
        for part in ["call_cost.py", "decode_step.py", "pytest"]:
            self.assertTrue([call for call in others if part in call], part)
        self.assertFalse([call for call in others if f"{self.scratch}/pack/cache" in call])
        for line in ["C++ engine.launch   4000", "eager   50.0 us a step", "12 passed in 3 s"]:
            self.assertEqual(table.count(line), 2, table)  # As it was said, and in the table.
        self.assertEqual((self.scratch / "results/example.log").read_text(encoding="utf-8"), "eager   50.0 us a step\n")

    def test_a_part_that_fails_fails_the_session_and_the_others_still_run(self):
        table = self.session(failing="call_cost", code=1).stdout
        self.assertIn("FAILED (exit 1)", table)
        self.assertIn("12 passed", table)

    def test_one_part_can_be_asked_for(self):
        self.session("example")
        self.assertFalse([call for call in self.calls if "pytest" in call or "call_cost" in call])

    def test_without_a_gpu_nothing_is_installed(self):
        self.program("bin/nvidia-smi", "exit 9")
        self.assertIn("no GPU", self.session(code=1).stderr)
        self.assertEqual(self.calls, [])


if __name__ == "__main__":
    unittest.main()
