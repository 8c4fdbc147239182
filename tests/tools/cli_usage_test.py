"""Command line, help and exit codes."""

import json
import re
import unittest

from support import REPOSITORY, KilnTest

COMMANDS = [["ops"], ["prebuild"], ["run"], ["bench"], ["cache"], ["doctor"], ["cache", "ls"], ["cache", "extract"], ["manifest"], ["manifest", "merge"]]


class Usage(KilnTest):
    def test_help_is_printed_to_stdout_and_names_the_exit_codes(self):
        for command in [[], *COMMANDS]:
            with self.subTest(command=command):
                result = self.kiln(*command, "--help")
                self.assertIn("Exit codes: 0 success, 1 failure at run time, 2 wrong usage", result.stdout)
                self.assertEqual(result.stderr, "")

    def test_version_is_the_one_of_the_header(self):
        header = (REPOSITORY / "include/kiln/version.h").read_text(encoding="utf-8")
        version = re.search(r'define KILN_VERSION "(.*)"', header).group(1)
        self.assertEqual(self.kiln("--version").stdout, f"kiln {version}\n")

    def test_wrong_usage_exits_2_with_a_plain_complaint(self):
        wrong = [
            [],
            ["frobnicate"],
            ["ops", "--frobnicate"],
            ["ops", "surplus"],
            ["prebuild"],
            ["prebuild", "--arch"],
            ["prebuild", "--arch", "banana"],
            ["prebuild", "--arch", "sm_90a", "sm_100a"],
            ["prebuild", "--arch", "sm_90a", "--jobs", "0"],
            ["prebuild", "--arch", "sm_90a", "--jobs", "many"],
            ["prebuild", "--arch", "sm_90a", "--pack", "some.pack"],
            ["prebuild", "--arch", "sm_90a", "--allow-missing"],
            ["prebuild", "--check", "--manifest"],
            ["run"],
            ["run", "n128k512_gemm_bf16", "--m", "-1"],
            ["run", "n128k512_gemm_bf16", "--seed", "-5"],
            ["run", "n128k512_gemm_bf16", "--pdl", "maybe"],
            ["run", "n128k512_gemm_bf16", "--dim", "m"],
            ["run", "n128k512_gemm_bf16", "--dim", "m=many"],
            ["run", "n128k512_gemm_bf16", "--dim", "m=-1"],
            ["run", "n128k512_gemm_bf16", "--dtype", "x=f17"],
            ["cache"],
            ["cache", "burn"],
        ]
        for arguments in wrong:
            with self.subTest(arguments=arguments):
                self.assert_plain_complaint(self.kiln(*arguments, code=2))

    def test_a_failure_at_run_time_is_json_for_who_asked_for_json(self):
        for command in (["cache", "stat", "--cache", "/nonexistent"], ["run", "nosuch_op"]):
            with self.subTest(command=command):
                result = self.kiln(*command, "--json", code=1)
                self.assertRegex(result.stderr, r"^kiln: .*\.\n$")
                self.assertIn(json.loads(result.stdout)["error"].rstrip("."), result.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = self.kiln("ops", stdout=full, code=1)
        self.assertIn("could not be written", result.stderr)


if __name__ == "__main__":
    unittest.main()
