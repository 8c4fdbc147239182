"""What the black-box tests share: running the kiln command in an environment of its own."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent


class ScratchTest(unittest.TestCase):
    """One temporary directory per test."""

    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="kiln-test-"))
        self.addCleanup(shutil.rmtree, self.scratch)


class KilnTest(ScratchTest):
    """Runs the command with an empty HOME and none of the caller's settings for Kiln."""

    def setUp(self):
        super().setUp()
        self.home = self.scratch / "home"
        self.home.mkdir()
        self.cache = self.scratch / "cache"

    def environment(self, **changes):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("KILN_") and k != "XDG_CACHE_HOME"}
        kept["HOME"] = str(self.home)
        kept.update({k: str(v) for k, v in changes.items()})
        return kept

    def kiln(self, *arguments, code=0, env=None, removed=False, **options):
        """Runs `kiln arguments...` and checks its exit code. With `removed`, its working directory is gone by then."""
        remove = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh"] if removed else []
        result = subprocess.run(
            [*remove, os.environ["KILN"], *map(str, arguments)],
            env=self.environment(**(env or {})),
            cwd=options.pop("cwd", self.scratch),
            stdin=subprocess.DEVNULL,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
        )
        shown = f"kiln {arguments}\n{(result.stdout or '')[-3000:]}\n{result.stderr[-3000:]}"
        self.assertEqual(result.returncode, code, shown)
        return result

    def kiln_json(self, *arguments, code=0, env=None):
        """The same with --json: all of stdout must be one JSON value."""
        return json.loads(self.kiln(*arguments, "--json", code=code, env=env).stdout)

    def assert_plain_complaint(self, result):
        """Errors go to stderr, in one or two plain sentences; stdout stays empty."""
        self.assertEqual(result.stdout, "")
        lines = result.stderr.splitlines()
        self.assertTrue(1 <= len(lines) <= 2, result.stderr)
        for line in lines:
            self.assertRegex(line, r"^kiln: .*\.$")

    def entries(self):
        return sorted(self.cache.glob("v1/*/*/*.cubin"))


class PrebuiltTest(KilnTest):
    """Has one op compiled for one architecture, once per class; each test works on a copy."""

    OP = "n128k512_gemm_bf16"
    ARCH = "sm_90a"

    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="kiln-test-"))
        cls.addClassCleanup(shutil.rmtree, cls.shared)

    def setUp(self):
        super().setUp()
        self.prebuilt = self.shared / "cache"
        if not self.prebuilt.exists():
            self.kiln("prebuild", "--arch", self.ARCH, "--op", self.OP, "--cache", self.prebuilt)
        shutil.copytree(self.prebuilt, self.cache)
        self.total = len(self.entries())
