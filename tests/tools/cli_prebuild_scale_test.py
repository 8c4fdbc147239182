"""kiln prebuild for images and job arrays: shards, manifests, checks, sizes, and stopping it."""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from support import PrebuiltTest

MISSING_NVRTC = {"KILN_NVRTC": "/nonexistent/libnvrtc.so"}


def tree(root):
    """A digest of every file but the locks, which tell who held them last."""
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in files.items()
        if not name.startswith("v1/locks/")
    }


class ScaleTest(PrebuiltTest):
    once = None

    @classmethod
    def setUpClass(cls):
        """One prebuilt cache for all classes of this file."""
        if ScaleTest.once is None:
            ScaleTest.once = pathlib.Path(tempfile.mkdtemp(prefix="kiln-test-"))
            unittest.addModuleCleanup(shutil.rmtree, ScaleTest.once)
        cls.shared = ScaleTest.once

    def arguments(self, *more, cache=None, op=PrebuiltTest.OP):
        return ["prebuild", "--cache", cache or self.cache, "--arch", self.ARCH, *(["--op", op] if op else []), *more]

    def manifest_of(self, names, name="manifest.json"):
        """A manifest of variants that are named as reports name them: OP TRAIT=VALUE... ARCH."""
        kernels = {op["name"]: op["kernels"][0] for op in self.kiln_json("ops")}
        variants = []
        for words in map(str.split, names):
            traits = dict(word.split("=") for word in words[1:-1])
            variants.append({"op": words[0], "kernel": kernels[words[0]], "traits": traits, "target": words[-1]})
        path = self.scratch / name
        path.write_text(json.dumps({"kiln_manifest": 1, "variants": variants}), encoding="utf-8")
        return path

    def names(self, *more):
        return sorted(kernel["name"] for kernel in self.kiln_json(*self.arguments(*more))["kernels"])


class Shards(ScaleTest):
    def test_shards_are_disjoint_and_together_build_what_one_build_does(self):
        merged = self.scratch / "merged"
        compiled = 0
        for i in range(3):
            part = self.scratch / f"part{i}"
            report = self.kiln_json(*self.arguments("--shard", f"{i}/3", cache=part))
            self.assertEqual(report["failed"], 0)
            compiled += report["compiled"]
            shutil.copytree(part, merged, dirs_exist_ok=True)
        self.assertEqual(compiled, self.total)
        self.assertEqual(tree(merged), tree(self.prebuilt))

    def test_shards_of_every_op_are_disjoint_for_any_number_of_them_and_none_is_idle(self):
        empty = self.scratch / "empty"

        def lacking(*more):
            report = self.kiln_json(*self.arguments("--check", *more, cache=empty, op=None), code=1)
            return [kernel["name"] for kernel in report["lacking"]]

        everything = lacking()
        self.assertEqual(len(set(everything)), len(everything))
        for n in (1, 2, 7):
            shards = [lacking("--shard", f"{i}/{n}") for i in range(n)]
            self.assertEqual(sorted(sum(shards, [])), sorted(everything))
            self.assertGreater(min(map(len, shards)), 0)

    def test_a_shard_that_has_nothing_to_do_is_no_failure(self):
        n = self.total + 1  # One more than there can be work for.
        counts = [len(self.kiln_json(*self.arguments("--shard", f"{i}/{n}"))["kernels"]) for i in range(n)]
        self.assertEqual((min(counts), sum(counts)), (0, self.total))

    def test_wrong_shards_are_wrong_usage(self):
        for shard in ("", "1", "a/b", "3/3", "-1/3", "0/0", "1/2/3", "0/1x", "0/99999999999999999999"):
            with self.subTest(shard):
                self.assert_plain_complaint(self.kiln(*self.arguments("--shard", shard), code=2))

    def test_what_is_built_already_is_not_built_again(self):
        removed = self.entries()[::2]
        for path in removed:
            path.unlink()
        report = self.kiln_json(*self.arguments())
        self.assertEqual((report["compiled"], report["cached"]), (len(removed), self.total - len(removed)))
        self.assertEqual(set(tree(self.cache)), set(tree(self.prebuilt)))
        self.assertEqual(self.kiln_json(*self.arguments())["compiled"], 0)


class Check(ScaleTest):
    def remove_one(self):
        """Returns the name of the kernel whose entry it removed."""
        listed = self.kiln_json("cache", "ls", "--cache", self.cache)["entries"]
        (self.cache / listed[0]["path"]).unlink()
        return listed[0]["label"]

    def test_a_complete_cache_passes_with_and_without_nvrtc(self):
        before = tree(self.cache)
        for env in ({}, MISSING_NVRTC):
            report = self.kiln_json(*self.arguments("--check"), env=env)
            self.assertEqual((report["checked"], report["lacking"]), (self.total, []))
        self.assertEqual(tree(self.cache), before)

    def test_what_a_cache_lacks_is_listed_and_not_built(self):
        """Field report 60."""
        gone = self.remove_one()
        before = tree(self.cache)
        for env in ({}, MISSING_NVRTC):
            report = self.kiln_json(*self.arguments("--check"), code=1, env=env)
            self.assertEqual([kernel["name"] for kernel in report["lacking"]], [gone])
            result = self.kiln(*self.arguments("--check"), code=1, env=env)
            self.assertIn(f"lacks {gone}\n", result.stdout)
            self.assertIn(f"{self.total} kernels checked, 1 lacking\n", result.stdout)
            self.assertRegex(result.stderr, r"^kiln: 1 kernel is lacking\.\n$")
        self.assertEqual(tree(self.cache), before)

    def test_a_damaged_entry_is_lacking(self):
        damaged = self.entries()[0]
        damaged.write_bytes(damaged.read_bytes()[:-1])
        self.assertEqual(len(self.kiln_json(*self.arguments("--check"), code=1)["lacking"]), 1)

    def test_a_cache_that_is_not_there_lacks_everything_and_is_not_made(self):
        absent = self.scratch / "absent"
        report = self.kiln_json(*self.arguments("--check", cache=absent), code=1)
        self.assertEqual(len(report["lacking"]), self.total)
        self.assertFalse(absent.exists())

    def test_layers_count(self):
        env = {"KILN_CACHE_LAYERS": self.cache}
        report = self.kiln_json(*self.arguments("--check", cache=self.scratch / "absent"), env=env)
        self.assertEqual((report["checked"], report["lacking"]), (self.total, []))

    def test_a_pack_is_checked_alone_unless_a_cache_is_named(self):
        gone = self.remove_one()
        pack = self.scratch / "some.pack"
        self.kiln("pack", "create", "--cache", self.cache, pack)
        alone = ["prebuild", "--check", "--pack", pack, "--arch", self.ARCH, "--op", self.OP]
        report = self.kiln_json(*alone, code=1, env={"KILN_CACHE_DIR": self.prebuilt})
        self.assertEqual([kernel["name"] for kernel in report["lacking"]], [gone])
        self.assertEqual(report["places"], [str(pack)])
        self.assertEqual(self.kiln_json(*alone, "--cache", self.prebuilt)["lacking"], [])
        self.assertEqual(self.kiln_json(*alone, code=1, env=MISSING_NVRTC)["checked"], self.total)

    def test_a_pack_that_cannot_be_used_is_an_error(self):
        broken = self.scratch / "broken.pack"
        broken.write_text("not a pack")
        for path in (broken, self.scratch / "absent.pack"):
            arguments = ["prebuild", "--check", "--pack", path, "--arch", self.ARCH]
            result = self.kiln(*arguments, code=1)
            self.assert_plain_complaint(result)
            self.assertIn(str(path), result.stderr)

    def test_a_check_of_nothing_is_a_failure(self):
        for more in (("--op", "nosuch*"), ("--arch", "sm_80")):
            arguments = ["prebuild", "--check", "--cache", self.cache, *more]
            arguments += [] if "--arch" in more else ["--arch", self.ARCH]
            result = self.kiln(*arguments, code=1)
            self.assertRegex(result.stderr, r"^kiln: .*\.\n")

    def test_a_pack_is_for_checking_only(self):
        self.assert_plain_complaint(self.kiln(*self.arguments("--pack", "some.pack"), code=2))


class Manifests(ScaleTest):
    def test_a_manifest_builds_exactly_its_set(self):
        wanted = self.names()[::3]
        manifest = self.manifest_of(wanted)
        fresh = self.scratch / "fresh"
        report = self.kiln_json("prebuild", "--manifest", manifest, "--cache", fresh)
        self.assertEqual(sorted(kernel["name"] for kernel in report["kernels"]), wanted)
        self.assertEqual(report["compiled"], len(wanted))
        self.assertLess(set(tree(fresh)), set(tree(self.prebuilt)))
        self.assertEqual(self.kiln_json("prebuild", "--check", "--manifest", manifest, "--cache", fresh)["lacking"], [])

    def test_manifests_merge_and_may_be_sharded_or_cut_down_to_ops(self):
        names = self.names()
        one = self.manifest_of(names[:3], "one.json")
        two = self.manifest_of(names[2:5], "two.json")
        both = ["prebuild", "--manifest", one, "--manifest", two, "--cache", self.cache]
        report = self.kiln_json(*both)
        self.assertEqual(sorted(kernel["name"] for kernel in report["kernels"]), names[:5])
        shards = [self.kiln_json(*both, "--shard", f"{i}/2")["kernels"] for i in range(2)]
        self.assertEqual(sorted(kernel["name"] for shard in shards for kernel in shard), names[:5])
        self.assertEqual(len(self.kiln_json(*both, "--op", "n128*")["kernels"]), 5)
        self.kiln(*both, "--op", "n32*", code=1)

    def test_an_arch_asks_for_the_same_variants_on_other_targets(self):
        wanted = self.names()[:2]
        manifest = self.manifest_of(wanted)
        report = self.kiln_json("prebuild", "--manifest", manifest, "--arch", "sm_100a", "--cache", self.cache)
        moved = [name.replace(self.ARCH, "sm_100a") for name in wanted]
        self.assertEqual(sorted(kernel["name"] for kernel in report["kernels"]), moved)

    def test_an_entry_that_no_longer_exists_fails_the_build_unless_told_otherwise(self):
        names = self.names()[:2]
        manifest = self.manifest_of([*names, f"{self.OP} M_SPLIT=99 PDL=true ROW_WARPS=1 {self.ARCH}"])
        command = ["prebuild", "--manifest", manifest, "--cache", self.cache]
        for more in ((), ("--check",)):
            result = self.kiln(*command, *more, code=1)
            self.assertIn("M_SPLIT has no value 99", result.stderr)
            report = self.kiln_json(*command, *more, code=1)
            self.assertEqual([row["variant"].split()[0] for row in report["missing"]], [f"{self.OP}/gemm"])
            self.assertEqual(self.kiln_json(*command, *more, "--allow-missing")["missing"], report["missing"])
        self.assertEqual(len(report["lacking"]), 0)

    def test_a_manifest_that_is_none_is_a_failure_that_names_it(self):
        broken = self.scratch / "broken.json"
        broken.write_text("{}")
        result = self.kiln("prebuild", "--manifest", broken, "--cache", self.cache, code=1)
        self.assert_plain_complaint(result)
        self.assertIn(str(broken), result.stderr)

    def test_without_arch_and_manifest_the_usage_is_wrong(self):
        self.assert_plain_complaint(self.kiln("prebuild", "--cache", self.cache, code=2))
        self.assert_plain_complaint(self.kiln(*self.arguments("--allow-missing"), code=2))


class Sizes(ScaleTest):
    def test_sizes_add_up_by_op_and_arch_and_name_the_largest(self):
        kernels = self.kiln_json(*self.arguments())["kernels"]
        total = sum(kernel["cubin_bytes"] for kernel in kernels)
        for more in ((), ("--check",)):
            sizes = self.kiln_json(*self.arguments("--explain-size", *more))["sizes"]
            self.assertEqual(sizes["cubin_bytes"], total)
            (group,) = sizes["groups"]
            self.assertEqual(group, {"op": self.OP, "arch": self.ARCH, "kernels": self.total, "cubin_bytes": total})
            self.assertEqual(sizes["largest"][0]["cubin_bytes"], max(kernel["cubin_bytes"] for kernel in kernels))
            text = self.kiln(*self.arguments("--explain-size", *more)).stdout
            self.assertRegex(text, rf"(?m)^ *{total} +{self.total}  {self.OP} {self.ARCH}$")


class Stopping(ScaleTest):
    def interrupted(self, number, code):
        """Stops a long prebuild once it has compiled something."""
        cache = self.scratch / "long"
        command = [os.environ["KILN"], *map(str, self.arguments("--jobs", "1", cache=cache, op=None))]
        with subprocess.Popen(
            command, env=self.environment(), cwd=self.scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            first = process.stdout.readline()
            process.send_signal(number)
            rest, errors = process.communicate(timeout=600)
        self.assertEqual(process.returncode, code, errors)
        self.assertIn(" compiled in ", first)
        self.assertRegex(rest, r"(?m)^\d+ compiled, 0 from the cache, 0 failed, .* left when it was stopped")
        self.assertRegex(errors, r"(?m)^kiln: stopped by SIG(INT|TERM)")
        compiled = int(rest.splitlines()[-1].split()[0])
        entries = list(cache.glob("v1/*/*/*.cubin"))
        self.assertEqual(len(entries), compiled)
        self.assertGreater(compiled, 0)
        self.assertEqual(self.kiln_json("cache", "verify", "--cache", cache)["bad"], [])
        self.assertEqual(list(cache.glob("v1/tmp/*")), [])

    def test_an_interrupt_stops_it_and_keeps_what_is_done(self):
        self.interrupted(signal.SIGINT, 130)

    def test_so_does_a_request_to_terminate(self):
        self.interrupted(signal.SIGTERM, 143)

    def stopped_while(self, waiting, **env):
        """Interrupts a prebuild once `waiting(process)` is true; far sooner than what it waits for would end."""
        command = [os.environ["KILN"], *map(str, self.arguments("--jobs", "1", cache=self.scratch / "empty"))]
        with subprocess.Popen(
            command, env=self.environment(**env), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            deadline = time.monotonic() + 60
            while not waiting(process) and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=15)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("kiln: stopped by SIGINT", errors)

    def test_an_interrupt_ends_the_start_of_the_first_worker(self):
        worker = self.scratch / "worker"
        worker.write_text(f"#!/bin/sh\ntouch {self.scratch}/started\nexec sleep 600\n", encoding="utf-8")
        worker.chmod(0o755)
        self.stopped_while(lambda _: (self.scratch / "started").exists(), KILN_COMPILE_WORKER=worker)

    def test_an_interrupt_ends_the_wait_for_another_process_that_compiles(self):
        def has_worker(process):  # Which is there before anybody waits for a lock.
            return any(path.read_text() for path in pathlib.Path(f"/proc/{process.pid}/task").glob("*/children"))

        locks = self.scratch / "empty" / "v1" / "locks"
        locks.mkdir(parents=True)
        with contextlib.ExitStack() as held:
            for number in range(256):
                lock = held.enter_context(open(locks / f"{number:02x}", "w", encoding="utf-8"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            self.stopped_while(has_worker)

    def test_a_limit_on_the_size_of_files_is_an_error_and_no_crash(self):
        cache = self.scratch / "empty"
        result = subprocess.run(
            [os.environ["KILN"], *map(str, self.arguments("--jobs", "1", cache=cache))],
            env=self.environment(),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("could not be stored", result.stderr)
        self.assertEqual(list(cache.glob("v1/tmp/*")), [])


if __name__ == "__main__":
    unittest.main()
