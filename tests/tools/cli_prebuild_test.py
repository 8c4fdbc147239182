"""kiln prebuild, with real compiles."""

import os
import pathlib
import pty
import shutil
import subprocess
import unittest

from support import PrebuiltTest

MISSING_NVRTC = {"KILN_NVRTC": "/nonexistent/libnvrtc.so"}


def tree(root):
    """Every file but the locks, which tell who held them last."""
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {name: content for name, content in files.items() if not name.startswith("v1/locks/")}


class Prebuild(PrebuiltTest):
    def arguments(self, *more, arch=PrebuiltTest.ARCH, op=PrebuiltTest.OP):
        return ["prebuild", "--cache", self.cache, "--arch", arch, *(["--op", op] if op else []), *more]

    def empty_cache(self):
        shutil.rmtree(self.cache)

    def test_the_second_run_takes_every_kernel_from_the_cache(self):
        """Field report 56."""
        self.empty_cache()
        first = self.kiln_json(*self.arguments(arch="sm_90a,sm_100a", op=None))
        total = len(first["kernels"])
        self.assertGreater(total, 0)
        self.assertEqual((first["compiled"], first["cached"], first["failed"]), (total, 0, 0))
        self.assertEqual(len(self.entries()), total)
        second = self.kiln_json(*self.arguments(arch="sm_90a,sm_100a", op=None))
        self.assertEqual((second["compiled"], second["cached"], second["failed"]), (0, total, 0))
        self.assertTrue(all(kernel["from_cache"] for kernel in second["kernels"]))
        names = [sorted(kernel["name"] for kernel in run["kernels"]) for run in (first, second)]
        self.assertEqual(names[0], names[1])

    def test_two_prebuilds_give_identical_caches_at_any_number_of_jobs(self):
        """Field report 62."""
        self.empty_cache()
        self.kiln(*self.arguments("--jobs", 1))
        self.assertEqual(tree(self.cache), tree(self.prebuilt))

    def test_a_kernel_is_reported_with_its_resources(self):
        report = self.kiln_json(*self.arguments())
        self.assertEqual(len(report["kernels"]), self.total)
        for kernel in report["kernels"]:
            self.assertTrue(kernel["name"].startswith(self.OP))
            self.assertIn(self.ARCH, kernel["name"])
            self.assertRegex(kernel["key"], r"^[0-9a-f]{32}$")
            self.assertTrue(kernel["symbol"].startswith("_Z"))
            self.assertGreater(kernel["registers"], 0)
            self.assertEqual(kernel["spill_bytes"], 0)
            self.assertGreater(kernel["cubin_bytes"], 0)
            self.assertTrue(kernel["stored"])
            self.assertEqual(kernel["pdl_wait"], "PDL=true" in kernel["name"])

    def test_a_glob_chooses_ops(self):
        report = self.kiln_json(*self.arguments(op="n128*"))
        self.assertEqual({kernel["name"].split()[0] for kernel in report["kernels"]}, {self.OP})

    def test_op_may_be_given_twice_or_as_a_list(self):
        for twice in (self.arguments("--op", "n128*", op="*k512_*"), self.arguments(op="n128*,*k512_*")):
            self.assertEqual(self.kiln_json(*twice)["cached"], self.total)

    def test_a_glob_that_matches_nothing_is_a_failure_even_beside_one_that_does(self):
        for globs in ("nosuch*", "nosuch*,n128*"):
            result = self.kiln(*self.arguments(op=globs), code=1)
            self.assertRegex(result.stderr, r"^kiln: --op nosuch\*: no op has a name like this\.\n$")

    def test_an_arch_that_no_op_serves_is_skipped_with_its_reason_and_fails_alone(self):
        report = self.kiln_json(*self.arguments(arch="sm_80", op=None), code=1)
        self.assertEqual(report["kernels"], [])
        self.assertEqual({row["arch"] for row in report["skipped"]}, {"sm_80"})
        for row in report["skipped"]:
            self.assertIn("9.0", row["reason"])
        complaint = self.kiln(*self.arguments(arch="sm_80"), code=1).stderr
        self.assertRegex(complaint, r"^kiln: nothing was built: .*9\.0")

    def test_a_skipped_arch_does_not_fail_a_run_that_served_another(self):
        report = self.kiln_json(*self.arguments(arch=f"sm_80,{self.ARCH}"))
        self.assertEqual([row["arch"] for row in report["skipped"]], ["sm_80"])
        self.assertEqual((report["failed"], report["cached"]), (0, self.total))

    def test_a_named_arch_that_this_nvrtc_cannot_compile_is_refused_before_compiling_and_told_what_can_be(self):
        """One that is newer or made up, or older than what it still compiles; alone or beside another."""
        self.empty_cache()
        for archs in ("sm_99", f"sm_99,{self.ARCH}", f"{self.ARCH},sm_52"):
            with self.subTest(archs):
                result = self.kiln(*self.arguments(arch=archs), code=1)
                self.assert_plain_complaint(result)
                unknown = next(arch for arch in archs.split(",") if arch != self.ARCH)
                self.assertRegex(result.stderr, rf"--arch names {unknown}, and NVRTC \d+\.\d+ \(/.*\) cannot .*{self.ARCH}")
                self.assertIn(f"--arch names {unknown}", self.kiln_json(*self.arguments(arch=archs), code=1)["error"])
                self.assertFalse(self.cache.exists())

    def unwritable(self):
        """Caches that no entry can be written to, whoever tries; the second looks as if it could."""
        for place in (self.scratch / "file", self.scratch / "folder/v1/tmp"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("a file where a directory should be")
        return self.scratch / "file", self.scratch / "folder"

    def test_an_unwritable_cache_is_a_failure_that_says_so_before_the_first_compile(self):
        worker = self.scratch / "worker"
        worker.write_text(f"#!/bin/sh\ntouch {self.scratch}/started\n", encoding="utf-8")
        worker.chmod(0o755)
        for cache in self.unwritable():
            with self.subTest(cache):
                command = ["prebuild", "--cache", cache, "--arch", self.ARCH, "--op", self.OP]
                result = self.kiln(*command, code=1, env={"KILN_COMPILE_WORKER": worker})
                self.assert_plain_complaint(result)
                self.assertRegex(result.stderr, rf"nothing was built, since .*{cache}.* [Nn]ot a directory.*--cache")
                self.assertIn("nothing was built", self.kiln_json(*command, code=1)["error"])
        self.assertFalse((self.scratch / "started").exists())

    def test_an_unwritable_cache_is_no_failure_where_nothing_is_to_be_written(self):
        for cache in self.unwritable():
            command = ["prebuild", "--cache", cache, "--arch", self.ARCH, "--op", self.OP]
            for env in ({"KILN_CACHE_LAYERS": self.cache}, {"KILN_CACHE_LAYERS": self.cache, **MISSING_NVRTC}):
                with self.subTest(cache, env=env):
                    report = self.kiln_json(*command, env=env)
                    self.assertEqual((report["cached"], report["failed"]), (self.total, 0))
                    self.assertEqual(self.kiln_json(*command, "--check", env=env)["lacking"], [])
            self.assertEqual(len(self.kiln_json(*command, "--check", code=1)["lacking"]), self.total)
            forbidden = self.kiln(*command, code=1, env={"KILN_JIT": "forbid"})
            self.assertIn("compiling is forbidden", forbidden.stdout)

    def test_a_missing_nvrtc_is_an_error_that_names_it(self):
        self.empty_cache()
        result = self.kiln(*self.arguments(), code=1, env=MISSING_NVRTC)
        self.assert_plain_complaint(result)
        self.assertRegex(result.stderr, "nothing was built, since .*/nonexistent/libnvrtc.so")
        self.assertIn("nothing was built", self.kiln_json(*self.arguments(), code=1, env=MISSING_NVRTC)["error"])

    def test_a_complete_cache_serves_a_prebuild_without_nvrtc(self):
        report = self.kiln_json(*self.arguments(), env=MISSING_NVRTC)
        self.assertEqual((report["compiled"], report["cached"]), (0, self.total))

    def test_a_complete_cache_serves_a_prebuild_whose_nvrtc_does_not_load(self):
        """A set that looks complete and turns out to be no NVRTC only when it is loaded."""
        toolkit = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "lib64")
        builtins = next(iter(sorted(toolkit.glob("libnvrtc-builtins.so.[0-9]*.[0-9]"))), None)
        if builtins is None:
            self.skipTest(f"needs NVRTC's builtins library, and there is none in {toolkit}")
        major = builtins.name.split(".")[-2]
        planted = self.scratch / "toolkit" / f"libnvrtc.so.{major}"
        planted.parent.mkdir()
        shutil.copy(os.environ["KILN_FAKE_DRIVER"], planted)
        shutil.copy(builtins, planted.parent)
        report = self.kiln_json(*self.arguments(), env={"KILN_NVRTC": planted})
        self.assertEqual((report["cached"], report["failed"]), (self.total, 0))
        self.empty_cache()
        result = self.kiln(*self.arguments(), code=1, env={"KILN_NVRTC": planted})
        self.assertIn(str(planted), result.stderr)

    def test_a_damaged_entry_is_compiled_again_and_the_cache_is_whole_after(self):
        """Field report 24."""
        damaged = self.entries()[0]
        damaged.write_bytes(damaged.read_bytes()[:-1])
        report = self.kiln_json(*self.arguments())
        self.assertEqual((report["compiled"], report["cached"]), (1, self.total - 1))
        self.assertEqual(self.kiln_json("cache", "verify", "--cache", self.cache)["bad"], [])

    def test_the_cache_directory_may_come_from_the_environment(self):
        report = self.kiln_json(
            "prebuild", "--arch", self.ARCH, "--op", self.OP, env={"KILN_CACHE_DIR": self.cache}
        )
        self.assertEqual(report["cached"], self.total)

    def test_without_a_terminal_progress_is_plain_lines(self):
        result = self.kiln(*self.arguments())
        lines = result.stdout.splitlines()
        self.assertEqual(sum(f"/{self.total}] {self.OP}" in line for line in lines), self.total)
        self.assertIn(f"0 compiled, {self.total} from the cache, 0 failed", lines[-1])
        self.assertNotIn("\r", result.stdout + result.stderr)

    def test_on_a_terminal_progress_is_a_bar(self):
        ours, theirs = pty.openpty()
        command = [os.environ["KILN"], *map(str, self.arguments())]
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
        self.assertIn(f"{self.total} from the cache".encode(), shown)


if __name__ == "__main__":
    unittest.main()
