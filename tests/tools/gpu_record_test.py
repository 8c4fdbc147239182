"""scripts/gpu_record.py over a small tree of two ops."""

import json
import subprocess
import sys
import unittest

from support import REPOSITORY, ScratchTest

SCRIPT = REPOSITORY / "scripts/gpu_record.py"
TREE = {
    "trait_registry/ops/op_1.cpp": 'op.name = "one"; source = "gemm/one.cuh"\n',
    "trait_registry/ops/op_2.cpp": 'op.name = "two"; source = "gemm/two.cuh"\n',
    "kernel_templates/gemm/one.cuh": '#include "prelude/a.cuh"\n',
    "kernel_templates/gemm/two.cuh": '#include "prelude/b.cuh"\n',
    "kernel_templates/prelude/a.cuh": '#include "prelude/common.cuh"\n',
    "kernel_templates/prelude/b.cuh": "// b\n",
    "kernel_templates/prelude/common.cuh": "// common\n",
    "runtime/engine.cpp": "// launches\n",
    "runtime/prebuild.cpp": "// does not launch\n",
    "runtime/driver/driver.cpp": "// calls\n",
    "runtime/nvrtc/compiler.cpp": "// compiles\n",
    "docs/other.md": "",
}


class GpuRecord(ScratchTest):
    def setUp(self):
        super().setUp()
        for name, text in TREE.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.scratch / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def record(self, *arguments, code=0):
        command = [sys.executable, SCRIPT, "--tree", self.scratch, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def digests(self):
        return json.loads(self.record("digests"))

    def changed_rows(self, name):
        """The rows whose digest a change of this file changes."""
        before = self.digests()
        self.write(name, TREE[name] + "// changed\n")
        after = self.digests()
        self.write(name, TREE[name])
        return {row for row in before if before[row] != after[row]}

    def results(self, name="results.json", **changes):
        results = {
            "device": "a GPU",
            "driver": "580",
            "date": "2026-01-01",
            "tests_passed": 5,
            "tests_failed": 0,
            "sanitizers": ["memcheck: clean"],
            "digests": self.digests(),
        }
        results.update(changes)
        path = self.scratch / name
        path.write_text(json.dumps(results), encoding="utf-8")
        return path

    def test_a_row_covers_description_template_and_what_it_includes_and_nothing_else(self):
        self.assertEqual(set(self.digests()), {"one", "two", "launch path"})
        expected = {
            "trait_registry/ops/op_1.cpp": {"one"},
            "kernel_templates/gemm/one.cuh": {"one"},
            "kernel_templates/prelude/a.cuh": {"one"},
            "kernel_templates/prelude/common.cuh": {"one"},
            "kernel_templates/prelude/b.cuh": {"two"},
            "runtime/engine.cpp": {"launch path"},
            "runtime/driver/driver.cpp": {"launch path"},
            "runtime/prebuild.cpp": set(),
            "runtime/nvrtc/compiler.cpp": set(),
        }
        self.assertEqual({name: self.changed_rows(name) for name in expected}, expected)

    def test_a_recorded_run_passes_until_device_code_changes(self):
        self.record("write", self.results())
        self.assertEqual(self.record("check"), "")
        self.write("kernel_templates/prelude/common.cuh", "// other\n")
        self.assertIn("one: changed since its GPU tests were run", self.record("check", code=1))

    def test_a_tree_without_a_record_fails(self):
        self.assertIn("no GPU run is recorded", self.record("check", code=1))

    def test_a_new_op_without_a_run_fails(self):
        self.record("write", self.results())
        self.write("trait_registry/ops/op_3.cpp", 'op.name = "three"; source = "gemm/one.cuh"\n')
        self.assertIn("three: no GPU run is recorded", self.record("check", code=1))

    def test_no_record_is_made_of_failed_or_absent_tests(self):
        self.assertIn("1 failed", self.record("write", self.results(tests_failed=1), code=1))
        self.assertIn("0 GPU tests passed", self.record("write", self.results(tests_passed=0), code=1))

    def test_parts_of_a_session_make_one_record(self):
        tests = self.results("tests.json", sanitizers=[])
        checkers = self.results("checkers.json", tests_passed=0, date="2026-01-02")
        self.assertIn("no memory checker ran", self.record("write", tests, code=1))
        self.record("write", tests, checkers)
        run = json.loads((self.scratch / "docs/gpu_record.json").read_text(encoding="utf-8"))["run"]
        self.assertEqual((run["tests_passed"], run["date"], run["sanitizers"]), (5, "2026-01-02", ["memcheck: clean"]))
        elsewhere = self.results("elsewhere.json", tests_passed=0, driver="570")
        self.assertIn("different machines: a GPU with driver 570; a GPU with driver 580", self.record("write", tests, elsewhere, code=1))

    def test_no_record_is_made_for_a_tree_that_changed_since_the_run(self):
        results = self.results()
        self.write("kernel_templates/gemm/one.cuh", "// other\n")
        self.assertIn("changed since the session ran: one", self.record("write", results, code=1))

    def test_a_pending_row_passes_with_a_warning_on_the_last_line_until_it_changes_again(self):
        self.record("write", self.results())
        self.write("kernel_templates/gemm/one.cuh", "// other\n")
        self.record("pending", "one", "no GPU could be had")
        last = self.record("check").splitlines()[-1]
        self.assertTrue(last.startswith("WARNING: "), last)
        self.assertIn("one: GPU tests pending: no GPU could be had", last)
        self.write("kernel_templates/gemm/one.cuh", "// another\n")
        self.assertIn("one: changed", self.record("check", code=1))

    def test_an_op_that_names_no_template_is_refused(self):
        self.write("trait_registry/ops/op_1.cpp", 'op.name = "one";\n')
        self.assertIn("names no template", self.record("digests", code=1))


if __name__ == "__main__":
    unittest.main()
