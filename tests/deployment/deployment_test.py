"""A serving image: kiln, programs that serve, a pack and glibc; no NVRTC, no compiler, no network, no HOME."""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from image import Image, Jail, calls_of
from support import KilnTest

ARCH = "sm_90a"  # What a prebuild for the fake driver's device makes.
PACK = "/opt/kernels/kiln.pack"
FORBID = {"KILN_JIT": "forbid", "KILN_CACHE_LAYERS": PACK}
KILN = "/usr/bin/kiln"
SERVE = "/usr/bin/serve_check"
ENGINE = "/usr/bin/engine"

# Calls that change a file or a folder, when they succeed.
CHANGING = re.compile(r"^(creat|ftruncate|truncate|mkdir|mkdirat|unlink|unlinkat|rename|renameat2?|link|linkat"
                      r"|symlink|symlinkat|f?chmod|fchmodat|f?l?chown|fchownat|utimensat|mknod|mknodat|fallocate"
                      r"|pwrite64|pwritev2?)$")
NETWORK = {"socket", "connect", "bind", "sendto", "sendmsg"}
# What an image for serving can do without, by name.
ABSENT = re.compile(r"nvrtc|cudart|ptxas|nvcc|cicc|libstdc|gcc|clang|/sh$|bash|python|worker", re.IGNORECASE)

JAIL = Jail()


@unittest.skipIf(JAIL.problem, JAIL.problem)
class ServingImage(KilnTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="kiln-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        cls.shared.chmod(0o755)  # Another user has to find the image in it.

    def setUp(self):
        super().setUp()
        self.prebuilt = self.shared / "cache"
        if not self.prebuilt.exists():
            self.kiln("prebuild", "--arch", ARCH, "--cache", self.prebuilt)

    def image(self, name, cache=None, *signing):
        """An image whose pack holds this cache: built once for each name."""
        root = self.shared / name
        image = Image(root)
        image.add_program(os.environ["KILN"], KILN)
        image.add_program(os.environ["KILN_SERVE_CHECK"], SERVE)
        image.add_program(os.environ["KILN_EXAMPLE_ENGINE"], ENGINE)
        image.add(os.environ["KILN_FAKE_DRIVER"], "/lib/x86_64-linux-gnu/libcuda.so.1")
        pack = self.scratch / "kiln.pack"
        self.kiln("pack", "create", "--cache", cache or self.prebuilt, *signing, pack)
        image.add(pack, PACK, 0o444)
        for path in image.root.rglob("*"):
            self.assertNotRegex(str(path.relative_to(root)), ABSENT)
        return image

    def run_in(self, image, *command, env=FORBID, code=0):
        """Runs it and checks, beside its exit code, that it wrote nothing, asked no network and sought no NVRTC."""
        before, trace = image.listing(), self.scratch / "trace"
        result = JAIL.run(image, *command, env=env, trace=trace)
        self.assertEqual(result.returncode, code, f"{command}\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}")
        self.assertEqual(image.listing(), before)
        if trace.exists():
            self.check_calls(calls_of(trace, command[0]))
        return result

    def check_calls(self, calls):
        self.assertTrue(any(name.startswith("open") and "kiln.pack" in rest for name, rest, _ in calls))
        for name, rest, code in calls:
            self.assertNotIn(name, NETWORK, rest)
            if name == "execve":
                self.assertTrue(rest.startswith((f'"{KILN}"', f'"{SERVE}"', f'"{ENGINE}"')), rest)
            if name.startswith("open"):
                self.assertNotRegex(rest, r"nvrtc|/usr/local|/opt/cuda", rest)
            if code not in ("-1", "?"):
                self.assertNotRegex(name, CHANGING, rest)
                self.assertFalse(name.startswith("open") and re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", rest), rest)

    def test_everything_loads_and_launches_in_an_image_with_glibc_and_a_pack_alone(self):
        """Field reports 86 and 101."""
        image = self.image("whole")
        served = self.run_in(image, SERVE)
        prepared, total = map(int, re.search(r"prepared (\d+) of (\d+)\n", served.stdout).groups())
        self.assertEqual(prepared, total)
        # Variants of two ops may be one kernel.
        self.assertGreaterEqual(total, len(list(self.prebuilt.glob("v1/*/*/*.cubin"))))
        ops = len(self.kiln_json("ops"))
        self.assertRegex(served.stdout, rf"compiles 0, cache hits {total}, loaded [1-9]\d*, loaded after the warm-up 0\n")
        launched, of = map(int, re.search(r"launched (\d+) kernels of (\d+) ops", served.stdout).groups())
        self.assertEqual(of, ops)
        self.assertGreaterEqual(launched, ops)
        self.assertEqual(served.stderr, "")

        said = self.run_in(image, KILN, "doctor")
        self.assertIn("compiling forbidden", said.stdout)
        self.assertNotIn("problem", said.stdout)
        self.assertEqual(said.stderr, "")
        report = json.loads(self.run_in(image, KILN, "doctor", "--json").stdout)
        self.assertTrue(report["ok"])
        self.assertEqual(report["compiling"]["policy"], "forbid")
        self.assertEqual(report["nvrtc"]["problem"], "")
        self.assertEqual({row["ability"] for row in report["ops"]}, {"loadable"})
        self.assertEqual(sum(row["variants"] for row in report["ops"]), total)
        self.assertEqual(len(report["ops"]), ops)

    def test_the_example_engine_captures_a_graph_and_replays_it_there(self):
        said = self.run_in(self.image("engine"), ENGINE, "10")
        self.assertRegex(said.stdout, r"^warm-up: 0 kernels compiled, [1-9]\d* libraries loaded, in ")
        self.assertRegex(said.stdout, r"\n10 steps of 32 kernels: \d+ kernels per second\n$")
        self.assertEqual(said.stderr, "")

    def test_a_kernel_that_the_pack_lacks_is_named_at_start_with_the_command_that_provides_it(self):
        """Field report 107."""
        cache = self.scratch / "partial"
        shutil.copytree(self.prebuilt, cache)
        lost = self.lose_one_entry(cache)
        image = self.image("partial", cache)
        served = self.run_in(image, SERVE, code=1)
        self.assertIn(f"{lost} is in no cache", served.stderr)
        self.assertIn(f"kiln prebuild --op {lost.split()[0]} --arch {ARCH}", served.stderr)
        self.assertEqual(served.stderr.count("is in no cache"), 1)  # No other is missing.
        said = self.run_in(image, KILN, "doctor", code=1)
        self.assertIn("compiling is forbidden", said.stderr)
        report = json.loads(self.run_in(image, KILN, "doctor", "--json", code=1).stdout)
        self.assertFalse(report["ok"])
        bad = [row for row in report["ops"] if row["ability"] != "loadable"]
        self.assertEqual([row["op"] for row in bad], [lost.split()[0]])
        self.assertEqual(bad[0]["variants"] - bad[0]["cached"], 1)
        self.assertIn("compiling is forbidden", bad[0]["reason"])

    def test_a_signed_pack_serves_and_an_unsigned_one_does_not_where_keys_are_trusted(self):
        key = self.scratch / "release.key"
        self.kiln("pack", "keygen", key)
        trusting = FORBID | {"KILN_TRUSTED_KEYS": "/opt/kernels/release.key.pub"}
        signed, unsigned = self.image("signed", None, "--sign", key), self.image("unsigned")
        for image in [signed, unsigned]:
            image.add(f"{key}.pub", trusting["KILN_TRUSTED_KEYS"], 0o444)
        self.run_in(signed, KILN, "doctor", env=trusting)
        self.run_in(signed, SERVE, env=trusting)
        self.assertIn("not used", self.run_in(unsigned, KILN, "doctor", env=trusting, code=1).stdout)

    def test_without_the_pack_nothing_else_is_found(self):
        """The test of the test: no kernel comes from anywhere else."""
        image = self.image("bare")
        (image.root / PACK[1:]).unlink()
        result = JAIL.run(image, SERVE, env=FORBID)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("prepared 0 of", result.stdout)

    def lose_one_entry(self, cache):
        """Removes the last entry of a cache; the kernel's name."""
        entry = self.kiln_json("cache", "ls", "--cache", cache)["entries"][-1]
        pathlib.Path(entry["path"]).unlink()
        return entry["label"]


if __name__ == "__main__":
    if JAIL.problem:
        print("skipped: no image can be entered here: " + JAIL.problem)
        sys.exit(77)
    print(f"images are entered as user {JAIL.uid}, {'with' if JAIL.strace else 'without'} strace")
    unittest.main()
