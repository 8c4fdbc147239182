"""kiln prebuild, with real compiles."""

import os
import pty
import subprocess
import unittest

from support import KilnTest

OP = "n128k512_gemm_bf16"


def tree(root):
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class Prebuild(KilnTest):
    def prebuild(self, *arguments, **options):
        return self.kiln_json("prebuild", "--cache", options.pop("cache", self.cache), *arguments, **options)

    def test_the_second_run_takes_every_kernel_from_the_cache(self):
        first = self.prebuild("--arch", "sm_90a,sm_100a")
        total = len(first["kernels"])
        self.assertGreater(total, 0)
        self.assertEqual((first["compiled"], first["cached"], first["failed"]), (total, 0, 0))
        self.assertEqual(len(self.entries()), total)
        second = self.prebuild("--arch", "sm_90a,sm_100a")
        self.assertEqual((second["compiled"], second["cached"], second["failed"]), (0, total, 0))
        self.assertTrue(all(kernel["from_cache"] for kernel in second["kernels"]))
        names = [sorted(kernel["name"] for kernel in run["kernels"]) for run in (first, second)]
        self.assertEqual(names[0], names[1])

    def test_a_kernel_is_reported_with_its_resources(self):
        report = self.prebuild("--arch", "sm_90a", "--op", OP)
        for kernel in report["kernels"]:
            self.assertTrue(kernel["name"].startswith(OP))
            self.assertIn("sm_90a", kernel["name"])
            self.assertRegex(kernel["key"], r"^[0-9a-f]{32}$")
            self.assertTrue(kernel["symbol"].startswith("_Z"))
            self.assertGreater(kernel["registers"], 0)
            self.assertEqual(kernel["spill_bytes"], 0)
            self.assertGreater(kernel["cubin_bytes"], 0)
            self.assertTrue(kernel["stored"])
            self.assertEqual(kernel["pdl_wait"], "PDL=true" in kernel["name"])

    def test_two_prebuilds_give_identical_caches_at_any_number_of_jobs(self):
        others = [self.scratch / "one", self.scratch / "two"]
        for jobs, cache in zip((1, 2), others):
            self.prebuild("--arch", "sm_90a", "--op", OP, "--jobs", jobs, cache=cache)
        self.assertEqual(tree(others[0]), tree(others[1]))

    def test_a_glob_chooses_ops(self):
        report = self.prebuild("--arch", "sm_90a", "--op", "n128*")
        self.assertEqual({kernel["name"].split()[0] for kernel in report["kernels"]}, {OP})

    def test_op_may_be_given_twice(self):
        report = self.prebuild("--arch", "sm_90a", "--op", "n128*", "--op", "n32*")
        self.assertEqual(len({kernel["name"].split()[0] for kernel in report["kernels"]}), 2)

    def test_a_glob_that_matches_nothing_is_a_failure(self):
        result = self.kiln("prebuild", "--arch", "sm_90a", "--op", "nosuch*", "--cache", self.cache, code=1)
        self.assertIn("nosuch*", result.stderr)

    def test_an_arch_that_no_op_serves_is_skipped_with_its_reason_and_fails_alone(self):
        report = self.prebuild("--arch", "sm_80", code=1)
        self.assertEqual(report["kernels"], [])
        self.assertEqual({row["arch"] for row in report["skipped"]}, {"sm_80"})
        for row in report["skipped"]:
            self.assertIn("9.0", row["reason"])

    def test_a_skipped_arch_does_not_fail_a_run_that_served_another(self):
        report = self.prebuild("--arch", "sm_80,sm_90a", "--op", OP)
        self.assertEqual([row["arch"] for row in report["skipped"]], ["sm_80"])
        self.assertEqual(report["failed"], 0)
        self.assertGreater(report["compiled"], 0)

    def test_an_unknown_arch_is_refused_before_anything_is_compiled(self):
        result = self.kiln("prebuild", "--arch", "sm_77", "--cache", self.cache, code=2)
        self.assert_plain_complaint(result)
        self.assertIn("sm_77", result.stderr)
        self.assertFalse(self.cache.exists())

    def test_an_unwritable_cache_is_a_failure_that_says_so(self):
        self.cache.write_text("a file where the directory should be")
        report = self.prebuild("--arch", "sm_90a", "--op", OP, code=1)
        self.assertTrue(report["kernels"])
        self.assertFalse(any(kernel["stored"] for kernel in report["kernels"]))
        result = self.kiln("prebuild", "--arch", "sm_90a", "--op", OP, "--cache", self.cache, code=1)
        self.assertIn("could not be stored", result.stderr)

    def test_a_missing_nvrtc_is_an_error_that_names_it(self):
        missing = {"KILN_NVRTC": "/nonexistent/libnvrtc.so"}
        result = self.kiln("prebuild", "--arch", "sm_90a", "--op", OP, "--cache", self.cache, code=1, env=missing)
        self.assertIn("/nonexistent/libnvrtc.so", result.stderr)

    def test_a_complete_cache_serves_a_prebuild_without_nvrtc(self):
        total = self.prebuild("--arch", "sm_90a", "--op", OP)["compiled"]
        missing = {"KILN_NVRTC": "/nonexistent/libnvrtc.so"}
        report = self.prebuild("--arch", "sm_90a", "--op", OP, env=missing)
        self.assertEqual((report["compiled"], report["cached"]), (0, total))

    def test_a_damaged_entry_is_compiled_again_and_the_cache_is_whole_after(self):
        total = self.prebuild("--arch", "sm_90a", "--op", OP)["compiled"]
        damaged = self.entries()[0]
        damaged.write_bytes(damaged.read_bytes()[:-1])
        report = self.prebuild("--arch", "sm_90a", "--op", OP)
        self.assertEqual((report["compiled"], report["cached"]), (1, total - 1))
        self.assertEqual(self.kiln_json("cache", "verify", "--cache", self.cache)["bad"], [])

    def test_the_cache_directory_may_come_from_the_environment(self):
        self.kiln("prebuild", "--arch", "sm_90a", "--op", OP, env={"KILN_CACHE_DIR": self.cache})
        self.assertTrue(self.entries())

    def test_without_a_terminal_progress_is_plain_lines(self):
        result = self.kiln("prebuild", "--arch", "sm_90a", "--op", OP, "--cache", self.cache)
        lines = result.stdout.splitlines()
        total = len(self.entries())
        self.assertEqual(sum(f"/{total}] {OP}" in line for line in lines), total)
        self.assertIn(f"{total} compiled, 0 from the cache, 0 failed", lines[-1])
        self.assertNotIn("\r", result.stdout + result.stderr)

    def test_on_a_terminal_progress_is_a_bar(self):
        ours, theirs = pty.openpty()
        command = [os.environ["KILN"], "prebuild", "--arch", "sm_90a", "--op", OP, "--cache", str(self.cache)]
        with subprocess.Popen(command, env=self.environment(), stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            shown = b""
            try:
                while chunk := os.read(ours, 65536):
                    shown += chunk
            except OSError:  # The terminal closes with the program.
                pass
        os.close(ours)
        self.assertEqual(process.returncode, 0, shown)
        self.assertIn(b"\r\x1b[K", shown)
        self.assertIn(b"[########################]", shown)
        self.assertIn(f"{len(self.entries())} compiled".encode(), shown)


if __name__ == "__main__":
    unittest.main()
