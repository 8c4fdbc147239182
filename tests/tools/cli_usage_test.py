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
            ["doctor", "surplus"],
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

    def test_an_empty_cache_directory_is_wrong_usage_however_it_is_written_and_whatever_layers_there_are(self):
        """It is an unset shell variable, and must not be the user's own cache or take the next word."""
        commands = [
            ["prebuild", "--arch", "sm_90a"],
            ["prebuild", "--arch", "sm_90a", "--check"],
            ["prebuild", "--arch", "sm_90a", "--check", "--pack", "some.pack"],
            *(["cache", name] for name in ("ls", "stat", "verify", "clear", "gc", "extract")),
            ["cache", "why", "rmsnorm", "--arch", "sm_90a"],
            ["cache", "import", "one", "two"],
            ["pack", "create", "some.pack"],
        ]
        for env in ({}, {"KILN_CACHE_LAYERS": self.scratch, "KILN_CACHE_DIR": self.scratch}):
            for command in commands:
                words = 1 if command[0] == "prebuild" else 2
                for empty in (["--cache", ""], ["--cache="]):
                    for given in (command + empty, command[:words] + empty + command[words:]):
                        with self.subTest(given, env=env):
                            result = self.kiln(*given, code=2, env=env)
                            self.assert_plain_complaint(result)
                            self.assertIn("--cache: the directory must not be empty", result.stderr)

    def test_an_empty_path_is_a_plain_failure(self):
        manifest = self.scratch / "manifest.json"
        manifest.write_text('{"kiln_manifest": 1, "variants": []}', encoding="utf-8")
        for command in (
            ["pack", "ls", ""],
            ["pack", "keygen", ""],
            ["pack", "create", "--cache", self.scratch, ""],
            ["pack", "create", "--cache", self.scratch, "--sign", "", "some.pack"],
            ["cache", "import", "", "--cache", self.cache],
            ["cache", "extract", "--cache", self.scratch, "--out", ""],
            ["manifest", "merge", manifest, "-o", ""],
            ["manifest", "show", ""],
            ["prebuild", "--check", "--arch", "sm_90a", "--pack", ""],
            ["prebuild", "--manifest", ""],
        ):
            with self.subTest(command):
                result = self.kiln(*command, code=1)
                self.assert_plain_complaint(result)
                self.assertNotIn("filesystem", result.stderr)

    def test_a_path_that_the_system_refuses_is_a_plain_failure_that_says_why(self):
        long = "x" * 5000
        for command in (
            ["cache", "ls", "--cache", long],
            ["cache", "import", long, "--cache", self.cache],
            ["pack", "create", "--cache", long, "some.pack"],
            ["pack", "ls", long],
            ["manifest", "merge", self.cache, "-o", long],
            ["prebuild", "--check", "--arch", "sm_90a", "--pack", long],
        ):
            with self.subTest(command):
                result = self.kiln(*command, code=1)
                self.assert_plain_complaint(result)
                self.assertIn("ENAMETOOLONG", result.stderr)
        named = self.kiln("cache", "ls", code=1, env={"KILN_CACHE_DIR": f"/{long}"})
        self.assertIn("ENAMETOOLONG", named.stderr)

    def test_a_relative_path_in_a_removed_working_directory_is_a_plain_failure(self):
        where = self.scratch / "where"
        for command in (
            ["prebuild", "--arch", "sm_90a", "--cache", "here"],
            ["prebuild", "--arch", "sm_90a", "--check", "--cache", "here"],
            ["prebuild", "--arch", "sm_90a", "--check", "--pack", "here"],
            ["prebuild", "--manifest", "here"],
            *(["cache", name, "--cache", "here"] for name in ("ls", "stat", "verify", "clear", "gc", "extract")),
            ["cache", "why", "rmsnorm", "--arch", "sm_90a", "--cache", "here"],
            ["cache", "import", "here", "--cache", self.cache],
            ["cache", "import", self.scratch, "--cache", "here"],
            ["cache", "extract", "--cache", self.scratch, "--out", "here"],
            ["pack", "create", "--cache", "here", "some.pack"],
            ["pack", "ls", "here"],
            ["pack", "keygen", "here"],
            ["manifest", "merge", "here", "-o", "there"],
            ["manifest", "show", "here"],
        ):
            with self.subTest(command):
                where.mkdir()
                result = self.kiln(*command, code=1, cwd=where, removed=True)
                self.assert_plain_complaint(result)
                self.assertRegex(result.stderr, "ENOENT|could not be")
                self.assertNotIn("filesystem error", result.stderr)

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
