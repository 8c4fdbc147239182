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
# As `kiln ops --json` prints them; an argument has a name too.
OPS = """[
  {
    "name": "one",
    "args": [
      {
        "name": "x"
      }
    ]
  },
  {
    "name": "two"
  }
]"""


def kiln(then):
    """A stand-in for the command that lists OPS, notes how it was called, and then does `then`."""
    return f"""echo "$@" >> "$(dirname "$0")/calls"
if [ "$1" = ops ]; then cat <<'END'
{OPS}
END
exit; fi
{then}"""


class GpuSession(ScratchTest):
    def setUp(self):
        super().setUp()
        for folder in ["pack/tests", "pack/bench", "bin"]:
            (self.scratch / folder).mkdir(parents=True)
        shutil.copy(REPOSITORY / "scripts/gpu_session.sh", self.scratch / "pack")
        (self.scratch / "pack/digests.json").write_text('{"one": "abc"}', encoding="utf-8")
        self.program("bin/nvidia-smi", 'echo "A GPU, 580.1"')
        self.program("pack/kiln", kiln("exit 0"))
        self.program("bin/compute-sanitizer", PASSING)

    def program(self, name, body):
        path = self.scratch / name
        path.write_text(f"#!/bin/bash\n{body}\n", encoding="utf-8")
        path.chmod(0o755)

    def session(self, code, *parts):
        results = self.scratch / "results.json"
        result = subprocess.run(
            [self.scratch / "pack/gpu_session.sh", results, *parts],
            env={**os.environ, "PATH": f"{self.scratch}/bin:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return json.loads(results.read_text(encoding="utf-8")) if results.exists() else None, result.stdout

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
            results, _ = self.session(1, "--tests")
            self.assertEqual((results["tests_passed"], results["tests_failed"]), (0, 1))

    def test_tests_run_once_each_in_several_processes_hidden_ones_left_out(self):
        names = [f"Test {i}, of many" for i in range(19)]
        lines = "\n".join(names)
        self.program(
            "pack/tests/a",
            f'[ "$1" != --list-test-names-only ] || {{ echo "$2" > "$0.spec"; echo "{lines}"; exit 19; }}\n'
            f'cat "$4" >> "$0.ran"; echo "$4" >> "$0.processes"; echo "0.5 s: slow"; {PASSING}',
        )
        results, shown = self.session(0, "--tests")
        ran = (self.scratch / "pack/tests/a.ran").read_text().splitlines()
        self.assertEqual(sorted(ran), sorted(name.replace(",", "\\,") for name in names))
        self.assertEqual((self.scratch / "pack/tests/a.spec").read_text(), "~[.]\n")
        processes = len((self.scratch / "pack/tests/a.processes").read_text().splitlines())
        self.assertEqual((processes, results["tests_passed"]), (8, 8 * 7))
        self.assertIn("0.5 s: slow", shown)

    def test_what_fails_in_one_of_the_processes_is_shown_and_counts(self):
        self.program("pack/tests/a", f'[ "$1" != --list-test-names-only ] || {{ echo One; echo Two; exit 2; }}; grep -q One "$4" || {{ echo it differs; {FAILING}; }}; {PASSING}')
        results, shown = self.session(1, "--tests")
        self.assertEqual((results["tests_passed"], results["tests_failed"]), (10, 2))
        self.assertIn("it differs", shown)

    def test_each_part_leaves_what_it_did_and_benchmarks_leave_nothing(self):
        self.program("pack/tests/a", PASSING)
        _, _ = self.session(0, "--bench")
        self.assertFalse((self.scratch / "results.json").exists())
        tests, _ = self.session(0, "--tests")
        self.assertEqual((tests["tests_passed"], tests["sanitizers"]), (7, []))
        checkers, _ = self.session(0, "--checkers")
        self.assertEqual((checkers["tests_passed"], len(checkers["sanitizers"])), (0, 4))

    def test_a_part_that_there_is_none_of_is_refused(self):
        _, _ = self.session(2, "--no-bench")

    def test_a_finding_of_a_checker_is_a_failure(self):
        self.program("pack/tests/a", PASSING)
        self.program("bin/compute-sanitizer", f'[ "$2" != racecheck ] || exit 86; {PASSING}')
        results, _ = self.session(1)
        self.assertIn("racecheck a: FAILED (exit 86)", results["sanitizers"])

    def test_a_finding_in_one_test_of_several_is_shown_by_its_name_and_stays_a_failure(self):
        self.program("pack/tests/a", f'[ "$1" != --list-test-names-only ] || {{ printf "One\\nTwo\\nThree\\n"; exit 3; }}; {PASSING}')
        body = f'if grep -q Two "${{@: -1}}" && [ "$2" = synccheck ]; then echo "Barrier error"; exit 86; fi; {PASSING}'
        self.program("bin/compute-sanitizer", body)
        results, shown = self.session(1, "--checkers")
        self.assertEqual(results["sanitizers"], ["memcheck a: clean", "racecheck a: clean", "initcheck a: clean", "synccheck a: FAILED (exit 86)"])
        self.assertIn("synccheck: Two\nBarrier error\n", shown)

    def test_a_checker_under_which_no_test_ran_is_a_failure(self):
        self.program("pack/tests/a", PASSING)
        self.program("bin/compute-sanitizer", 'echo "Invalid Filter: x"; echo "No tests ran"')
        results, _ = self.session(1)
        self.assertIn("memcheck a: FAILED: not every test passed", results["sanitizers"])

    def test_a_checker_runs_every_test_once_under_the_name_that_a_test_spec_has_for_it(self):
        names = ["One, two", "Three [four]", "Five", "Six"]
        lines = "\n".join(names)
        self.program("pack/tests/a", f'[ "$1" != --list-test-names-only ] || {{ echo "{lines}"; exit 4; }}; {PASSING}')
        self.program("bin/compute-sanitizer", f'cat "${{@: -1}}" >> "$(dirname "$0")/$2.names"; {PASSING}')
        self.session(0)
        ran = (self.scratch / "bin/racecheck.names").read_text().splitlines()
        self.assertEqual(sorted(ran), sorted(["One\\, two", "Three \\[four\\]", "Five", "Six"]))

    def test_a_checker_that_cannot_work_here_is_reported_as_not_run(self):
        self.program("pack/tests/a", PASSING)
        self.program("bin/compute-sanitizer", 'echo "Error: Device not supported."; exit 1')
        results, _ = self.session(0)
        self.assertIn("memcheck a: not run: the device is not supported", results["sanitizers"])

    def test_every_op_runs_with_few_and_more_rows_with_pdl_and_without(self):
        self.program("pack/tests/a", PASSING)
        self.session(0)
        runs = [line for line in (self.scratch / "pack/calls").read_text().splitlines() if line.startswith("run ")]
        wanted = [f"run {op} --m {m} --pdl {pdl}" for op in ["one", "two"] for pdl in ["on", "off"] for m in [1, 8, 33]]
        self.assertEqual(sorted(runs), sorted(wanted))  # Several at a time.

    def test_a_disagreement_of_kiln_run_is_a_failure(self):
        self.program("pack/tests/a", PASSING)
        self.program("pack/kiln", kiln('[ "$1" != run ] || exit 1'))
        results, _ = self.session(1)
        self.assertEqual(results["tests_failed"], 12)

    def test_an_op_that_takes_fewer_rows_may_say_so(self):
        self.program("pack/tests/a", PASSING)
        refusal = 'echo "kiln: $2: m must be at most {}, found $4."; exit 1'
        for most, failed in [(16, 0), (33, 4)]:
            self.program("pack/kiln", kiln(f'[ "$4" != 33 ] || {{ {refusal.format(most)}; }}'))
            results, shown = self.session(1 if failed else 0, "--tests")
            self.assertEqual(results["tests_failed"], failed)
            self.assertEqual("refused: at most 16 rows" in shown, not failed)

    def test_a_command_that_lists_no_op_is_a_failure(self):
        self.program("pack/tests/a", PASSING)
        self.program("pack/kiln", "exit 0")
        results, shown = self.session(1)
        self.assertEqual(results["tests_failed"], 1)
        self.assertIn("lists no op", shown)

    def test_what_kiln_bench_saves_lies_beside_the_results_and_its_table_is_shown(self):
        self.program("pack/tests/a", PASSING)
        self.program("pack/kiln", kiln('[ "$1" != bench ] || { echo "| a table |"; touch "$5" "$7"; }'))
        _, shown = self.session(0)
        self.assertIn("| a table |", shown)
        self.assertTrue((self.scratch / "bench.json").exists())
        self.assertTrue((self.scratch / "bench.svg").exists())

    def test_a_benchmark_that_cannot_run_is_a_failure(self):
        self.program("pack/tests/a", PASSING)
        self.program("pack/kiln", kiln('[ "$1" != bench ] || exit 1'))
        self.program("pack/bench/b", "exit 3")
        results, shown = self.session(1)
        self.assertEqual(results["tests_failed"], 2)
        self.assertIn("FAILED (exit 3)", shown)


if __name__ == "__main__":
    unittest.main()
