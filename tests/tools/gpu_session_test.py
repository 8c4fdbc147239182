"""scripts/gpu_session.sh counts what its programs report, over a packed folder of stand-ins."""

import json
import os
import shutil
import subprocess
import unittest

from support import REPOSITORY, ScratchTest

PASSING = 'echo "All tests passed (40 assertions in 7 test cases)"'
FAILING = 'echo "test cases:  5 |  3 passed |  2 failed"; exit 2'
SKIPPING = 'echo "skipped: no device"; exit 77'
CRASHING = "kill -SEGV $$"


class GpuSession(ScratchTest):
    def setUp(self):
        super().setUp()
        for folder in ["pack/tests", "pack/bench", "bin"]:
            (self.scratch / folder).mkdir(parents=True)
        shutil.copy(REPOSITORY / "scripts/gpu_session.sh", self.scratch / "pack")
        (self.scratch / "pack/digests.json").write_text('{"one": "abc"}', encoding="utf-8")
        self.program("bin/nvidia-smi", 'echo "A GPU, 580.1"')
        self.program("pack/kiln", "exit 0")
        self.program("bin/compute-sanitizer", "exit 0")

    def program(self, name, body):
        path = self.scratch / name
        path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def session(self, code):
        results = self.scratch / "results.json"
        result = subprocess.run(
            [self.scratch / "pack/gpu_session.sh", results],
            env={**os.environ, "PATH": f"{self.scratch}/bin:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(results.read_text(encoding="utf-8")), result.stdout

    def test_passing_programs_give_a_result_that_a_record_can_be_made_of(self):
        self.program("pack/tests/a", PASSING)
        results, shown = self.session(0)
        self.assertEqual((results["tests_passed"], results["tests_failed"]), (7, 0))
        self.assertEqual((results["device"], results["driver"]), ("A GPU", "580.1"))
        self.assertEqual(results["digests"], {"one": "abc"})
        self.assertEqual(results["sanitizers"][0], "memcheck a: clean")
        self.assertEqual(shown.splitlines()[-1], "7 passed, 0 failed")

    def test_failing_cases_are_counted(self):
        self.program("pack/tests/a", FAILING)
        results, _ = self.session(1)
        self.assertEqual((results["tests_passed"], results["tests_failed"]), (3, 2))

    def test_a_program_that_skips_itself_or_crashes_counts_as_failed(self):
        for body in [SKIPPING, CRASHING]:
            self.program("pack/tests/a", body)
            results, _ = self.session(1)
            self.assertEqual((results["tests_passed"], results["tests_failed"]), (0, 1))

    def test_a_finding_of_a_checker_is_a_failure(self):
        self.program("pack/tests/a", PASSING)
        self.program("bin/compute-sanitizer", '[ "$2" != racecheck ] || exit 86')
        results, _ = self.session(1)
        self.assertIn("racecheck a: FAILED (exit 86)", results["sanitizers"])

    def test_a_checker_that_cannot_work_here_is_reported_as_not_run(self):
        self.program("pack/tests/a", PASSING)
        self.program("bin/compute-sanitizer", 'echo "Error: Device not supported."; exit 1')
        results, _ = self.session(0)
        self.assertIn("memcheck a: not run: the device is not supported", results["sanitizers"])

    def test_a_disagreement_of_kiln_run_is_a_failure(self):
        self.program("pack/tests/a", PASSING)
        self.program("pack/kiln", '[ "$1" != run ] || exit 1')
        results, _ = self.session(1)
        self.assertEqual(results["tests_failed"], 12)


if __name__ == "__main__":
    unittest.main()
