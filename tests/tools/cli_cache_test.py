"""kiln cache, over a cache of one op."""

import json
import os
import pathlib
import subprocess
import unittest

from support import PrebuiltTest


class Cache(PrebuiltTest):
    def cache_json(self, subcommand, *arguments, code=0):
        return self.kiln_json("cache", subcommand, "--cache", self.cache, *arguments, code=code)

    def test_ls_lists_every_entry(self):
        listed = self.cache_json("ls")["entries"]
        self.assertEqual(sorted(entry["path"] for entry in listed), [str(path) for path in self.entries()])
        for entry in listed:
            self.assertEqual(entry["arch"], self.ARCH)
            self.assertTrue(entry["ok"])
            self.assertIn(self.OP, entry["label"])
            self.assertRegex(entry["key"], r"^[0-9a-f]{32}$")
        text = self.kiln("cache", "ls", "--cache", self.cache).stdout
        self.assertEqual(len(text.splitlines()), self.total)

    def test_stat_counts_entries_and_bytes(self):
        usage = self.cache_json("stat")
        self.assertEqual(usage["entries"], self.total)
        self.assertEqual(usage["bytes"], sum(path.stat().st_size for path in self.entries()))
        self.assertIn(str(self.cache), usage["root"])

    def why(self, *arguments, **more):
        arguments = ("--arch", self.ARCH) if not arguments else arguments
        return self.kiln_json("cache", "why", self.OP, "--cache", self.cache, *arguments, **more)["kernels"]

    def test_why_says_hit_and_where(self):
        kernels = self.why()
        self.assertEqual(len(kernels), self.total)
        self.assertEqual(sorted(kernel["path"] for kernel in kernels), [str(path) for path in self.entries()])
        text = self.kiln("cache", "why", self.OP, "--arch", self.ARCH, "--cache", self.cache).stdout
        self.assertEqual(len([line for line in text.splitlines() if line.startswith("hit ")]), self.total)

    def test_why_says_how_a_miss_differs_from_the_nearest_entry(self):
        """Field report 59."""
        kernels = self.why("--arch", "sm_90")
        self.assertEqual(len(kernels), self.total)
        for kernel in kernels:
            self.assertFalse(kernel["hit"])
            fields = {row["field"]: (row["asked"], row["stored"]) for row in kernel["nearest"]["differences"]}
            self.assertEqual(fields["target"], ("sm_90", "sm_90a"))
            self.assertEqual(set(fields), {"target", "options"})

    def test_why_names_a_bad_entry(self):
        bad = self.entries()[0]
        bad.write_bytes(b"damaged")
        missed = [kernel for kernel in self.why() if not kernel["hit"]]
        self.assertEqual([kernel["nearest"]["path"] for kernel in missed], [str(bad)])
        self.assertTrue(missed[0]["nearest"]["problem"])

    def test_why_takes_traits_and_refuses_those_that_no_variant_has(self):
        kernels = self.why("--arch", self.ARCH, "--trait", "PDL=true", "--trait", "M_SPLIT=4")
        self.assertTrue(0 < len(kernels) < self.total)
        for kernel in kernels:
            self.assertIn("M_SPLIT=4", kernel["kernel"])
        result = self.kiln("cache", "why", self.OP, "--arch", self.ARCH, "--trait", "M_SPLIT=99", code=1)
        self.assertIn("M_SPLIT=99", result.stderr)

    def test_why_needs_an_arch_where_there_is_no_gpu(self):
        self.kiln("cache", "why", self.OP, "--arch", "banana", code=2)
        self.kiln("cache", "why", "nosuch", "--arch", self.ARCH, code=1)

    def test_why_asked_of_a_cache_that_is_not_there_is_a_mistake(self):
        missing = self.scratch / "missing"
        asked = ["cache", "why", self.OP, "--arch", self.ARCH]
        self.assertIn(str(missing), self.kiln(*asked, "--cache", missing, code=1).stderr)
        self.assertIn("KILN_CACHE_DIR", self.kiln(*asked, code=1, env={"KILN_CACHE_DIR": missing}).stderr)

    def test_verify_passes_a_sound_cache(self):
        self.assertEqual(self.cache_json("verify"), {"entries": self.total, "bad": []})

    def test_verify_exits_1_and_names_a_truncated_entry_without_changing_anything(self):
        bad = self.entries()[0]
        bad.write_bytes(bad.read_bytes()[: bad.stat().st_size // 2])
        before = bad.read_bytes()
        report = self.cache_json("verify", code=1)
        self.assertEqual([entry["path"] for entry in report["bad"]], [str(bad)])
        self.assertTrue(report["bad"][0]["problem"])
        result = self.kiln("cache", "verify", "--cache", self.cache, code=1)
        self.assertIn(bad.name, result.stderr)
        self.assertEqual(bad.read_bytes(), before)

    def test_verify_notices_one_changed_byte(self):
        bad = self.entries()[0]
        content = bytearray(bad.read_bytes())
        content[len(content) // 3] ^= 1
        bad.write_bytes(content)
        self.assertEqual(len(self.cache_json("verify", code=1)["bad"]), 1)

    def test_extract_writes_plain_elf_files(self):
        out = self.scratch / "out"
        extracted = self.cache_json("extract", "--out", out)["extracted"]
        self.assertEqual(len(extracted), self.total)
        for row in extracted:
            path = pathlib.Path(row["path"])
            content = path.read_bytes()
            self.assertEqual(content[:4], b"\x7fELF")
            entry = next(self.cache.glob(f"v1/*/*/{path.stem.split('-')[-1]}.cubin")).read_bytes()
            self.assertLess(len(content), len(entry))
            self.assertTrue(entry.startswith(content))

    def test_elf_tools_read_an_entry_as_it_is(self):
        result = subprocess.run(["readelf", "-h", self.entries()[0]], capture_output=True, text=True, check=True)
        self.assertIn("NVIDIA CUDA architecture", result.stdout)

    def test_extract_writes_the_ptx_of_each_kernel_and_of_no_other(self):
        out = self.scratch / "out"
        extracted = self.cache_json("extract", "--ptx", "--out", out)["extracted"]
        self.assertEqual(len(extracted), self.total)
        texts = {pathlib.Path(row["ptx"]).read_text(encoding="utf-8") for row in extracted}
        self.assertEqual(len(texts), self.total)
        for text in texts:
            self.assertRegex(text, r"(?m)^\.target sm_")
            self.assertEqual(text.count(".entry"), 1)

    def test_extract_has_nvdisasm_write_the_sass(self):
        nvdisasm = self.scratch / "bin/nvdisasm"
        nvdisasm.parent.mkdir()
        nvdisasm.write_text("#!/bin/sh\necho \"asked: $*\"\n", encoding="utf-8")
        nvdisasm.chmod(0o755)
        env = {"PATH": f"{nvdisasm.parent}:{os.environ['PATH']}", "CUDA_HOME": "", "CUDA_PATH": ""}
        key = self.entries()[0].stem
        row = self.kiln_json("cache", "extract", "--cache", self.cache, "--sass", "--out", self.scratch, key, env=env)["extracted"][0]
        self.assertEqual(pathlib.Path(row["sass"]).read_text(encoding="utf-8"), f"asked: --print-code {row['path']}\n")
        nvdisasm.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
        failed = self.kiln("cache", "extract", "--cache", self.cache, "--sass", "--out", self.scratch, key, env=env, code=1)
        self.assertIn("nvdisasm failed", failed.stderr)

    def test_extract_of_sass_without_nvdisasm_says_where_it_was_sought(self):
        if pathlib.Path("/usr/local/cuda/bin/nvdisasm").exists():
            self.skipTest("there is an nvdisasm where it is always found")
        env = {"PATH": str(self.scratch), "CUDA_HOME": "", "CUDA_PATH": ""}
        failed = self.kiln("cache", "extract", "--cache", self.cache, "--sass", "--out", self.scratch, code=1, env=env)
        self.assertIn("nvdisasm", failed.stderr)
        self.assertIn("PATH", failed.stderr)

    def test_line_information_is_part_of_the_key_and_names_no_place_of_this_machine(self):
        env = {"KILN_LINEINFO": "1"}
        self.kiln("prebuild", "--arch", self.ARCH, "--op", self.OP, "--cache", self.cache, env=env)
        self.assertEqual(len(self.entries()), 2 * self.total)
        with_lines = [path.read_bytes() for path in self.entries() if b"--generate-line-info" in path.read_bytes()]
        self.assertEqual(len(with_lines), self.total)
        for image in with_lines:
            self.assertIn(b"debug_line", image)
            self.assertNotIn(str(self.scratch).encode(), image)
        self.kiln("prebuild", "--arch", self.ARCH, "--op", self.OP, "--cache", self.cache, "--check", env=env)

    def test_extract_takes_the_beginning_of_a_key(self):
        key = self.entries()[0].stem
        extracted = self.cache_json("extract", "--out", self.scratch, key[:12])["extracted"]
        self.assertEqual(len(extracted), 1)
        self.assertIn(key, extracted[0]["path"])

    def test_extract_of_an_absent_key_is_a_failure(self):
        self.assertEqual(self.cache_json("extract", "zz", code=1), {"extracted": []})

    def test_extract_names_each_key_that_matches_nothing_and_fails(self):
        key = self.entries()[0].stem
        result = self.kiln(
            "cache", "extract", "--cache", self.cache, "--out", self.scratch, "xx", key, "yy", code=1
        )
        for absent in ["xx", "yy"]:
            self.assertIn(f"'{absent}'", result.stderr)
        self.assertNotIn(key, result.stderr)
        self.assertIn(key, result.stdout)

    def test_gc_removes_the_least_recently_used_down_to_a_size(self):
        entries = self.entries()
        for age, path in enumerate(entries):
            os.utime(path, (0, 1_000_000_000 - age))
        self.assertEqual(self.cache_json("gc")["removed"], 0)
        report = self.cache_json("gc", "--max-bytes", str(sum(p.stat().st_blocks * 512 for p in entries) - 1))
        self.assertGreaterEqual(report["removed"], 1)
        self.assertEqual(report["removed"] + report["kept"], self.total)
        left = self.entries()
        self.assertEqual(left, sorted(entries[: len(left)]))
        text = self.kiln("cache", "gc", "--cache", self.cache, "--max-age", "1d").stdout
        self.assertIn(f"removed {len(left)} file", text)
        self.assertEqual(self.entries(), [])

    def test_gc_takes_its_limits_from_the_environment(self):
        for path in self.entries():
            os.utime(path, (0, 1_000_000_000))
        limits = {"KILN_CACHE_MAX_BYTES": "1K", "KILN_CACHE_MAX_AGE": "30d"}
        report = self.kiln_json("cache", "gc", "--cache", self.cache, env=limits)
        self.assertEqual(report["limits"], {"max_bytes": 1024, "max_age": 30 * 86400})
        self.assertEqual(report["removed"], self.total)

    def test_gc_refuses_what_is_no_limit(self):
        for option in [("--max-bytes", "much"), ("--max-age", "1w"), ("--max-bytes", "-1")]:
            with self.subTest(option=option):
                self.assert_plain_complaint(self.kiln("cache", "gc", *option, code=2))

    def test_a_limit_of_the_environment_that_is_not_understood_is_told_of_and_removes_nothing(self):
        result = self.kiln("cache", "gc", "--cache", self.cache, env={"KILN_CACHE_MAX_BYTES": "10 GB"})
        self.assertIn("KILN_CACHE_MAX_BYTES", result.stderr)
        self.assertEqual(len(self.entries()), self.total)

    def test_stat_of_a_folder_that_cannot_be_read_is_a_failure(self):
        target = self.cache / "v1" / self.ARCH
        target.rename(self.scratch / "elsewhere")
        target.symlink_to(self.scratch / "elsewhere")
        self.assert_plain_complaint(self.kiln("cache", "stat", "--cache", self.cache, code=1))

    def test_stat_of_a_cache_that_everybody_can_write_is_a_failure_until_agreed_to(self):
        self.cache.chmod(0o777)
        result = self.kiln("cache", "stat", "--cache", self.cache, code=1)
        self.assertIn("KILN_CACHE_ALLOW_WORLD_WRITABLE", result.stderr)
        agreed = {"KILN_CACHE_ALLOW_WORLD_WRITABLE": "1"}
        usage = self.kiln_json("cache", "stat", "--cache", self.cache, env=agreed)
        self.assertEqual(usage["entries"], self.total)

    def test_a_second_prebuild_hits_in_a_copy_whatever_its_times(self):
        for shift in [-60, 60, -31536000, 31536000]:
            for path in self.cache.rglob("*"):
                times = path.stat()
                os.utime(path, (times.st_atime + shift, times.st_mtime + shift))
            report = self.kiln_json("prebuild", "--arch", self.ARCH, "--op", self.OP, "--cache", self.cache)
            self.assertEqual((report["compiled"], report["cached"]), (0, self.total))
            self.assertEqual(report["counters"]["hits"], self.total)
            self.assertEqual(report["counters"]["misses"], 0)
            self.assertGreater(report["counters"]["bytes_read"], 0)
            self.assertEqual(
                report["counters"]["hits_by_layer"], [{"path": str(self.cache), "hits": self.total}]
            )

    def test_extract_leaves_out_a_bad_entry_and_fails(self):
        bad = self.entries()[0]
        bad.write_bytes(b"")
        report = self.cache_json("extract", "--out", self.scratch / "out", code=1)
        self.assertEqual(len(report["extracted"]), self.total - 1)

    def test_extract_leaves_out_an_entry_that_holds_another_kernel_than_its_name_says(self):
        first, second = self.entries()[:2]
        first.write_bytes(second.read_bytes())
        report = self.cache_json("extract", "--out", self.scratch / "out", code=1)
        self.assertEqual(len(report["extracted"]), self.total - 1)
        self.assertFalse(any(first.stem in row["path"] for row in report["extracted"]))

    def test_clear_removes_every_entry(self):
        self.assertEqual(self.cache_json("clear"), {"removed": self.total})
        self.assertEqual(self.cache_json("ls")["entries"], [])
        self.assertEqual(self.entries(), [])

    def test_a_named_directory_that_is_not_there_is_a_failure(self):
        for subcommand in ["ls", "stat", "verify", "clear", "gc", "extract"]:
            with self.subTest(subcommand=subcommand):
                result = self.kiln("cache", subcommand, "--cache", self.scratch / "nowhere", code=1)
                self.assert_plain_complaint(result)
                self.assertIn("nowhere", result.stderr)

    def test_a_directory_of_the_environment_that_is_not_there_is_a_failure(self):
        nowhere = {"KILN_CACHE_DIR": self.scratch / "nowhere"}
        result = self.kiln("cache", "verify", env=nowhere, code=1)
        self.assert_plain_complaint(result)
        self.assertIn("nowhere", result.stderr)

    def test_a_directory_is_relative_to_where_the_command_runs_and_a_variable_is_not(self):
        usage = json.loads(self.kiln("cache", "stat", "--cache", self.cache.name, "--json").stdout)
        self.assertEqual(usage["entries"], self.total)
        result = self.kiln("cache", "stat", env={"KILN_CACHE_DIR": self.cache.name}, code=1)
        self.assert_plain_complaint(result)
        self.assertIn("absolute", result.stderr)

    def test_an_empty_directory_name_is_a_mistake_and_not_the_default_cache(self):
        for subcommand in ["ls", "stat", "verify", "clear", "gc", "extract"]:
            with self.subTest(subcommand=subcommand):
                self.assert_plain_complaint(self.kiln("cache", subcommand, "--cache", "", code=2))

    def test_the_directory_may_come_from_the_environment(self):
        usage = self.kiln_json("cache", "stat", env={"KILN_CACHE_DIR": self.cache})
        self.assertEqual(usage["entries"], self.total)

    def test_a_default_cache_that_is_not_there_yet_is_empty(self):
        self.assertEqual(self.kiln_json("cache", "ls")["entries"], [])
        self.assertEqual(list(self.home.rglob("*")), [])


if __name__ == "__main__":
    unittest.main()
