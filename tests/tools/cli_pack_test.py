"""kiln pack, over a cache of one op."""

import os
import pathlib
import re
import unittest

from support import PrebuiltTest

NO_COMPILER = {"KILN_NVRTC": "/nonexistent/libnvrtc.so"}


class Pack(PrebuiltTest):
    def setUp(self):
        super().setUp()
        self.pack = self.scratch / "k.pack"

    def create(self, *arguments, pack=None, cache=None):
        return self.kiln_json("pack", "create", "--cache", cache or self.cache, pack or self.pack, *arguments)

    def keygen(self, name="key"):
        self.kiln("pack", "keygen", self.scratch / name)
        return self.scratch / name

    def prebuild(self, env, code=0):
        """Prebuilds into an empty cache with no compiler at hand: every kernel must be found."""
        return self.kiln(
            "prebuild", "--cache", self.scratch / "empty", "--arch", self.ARCH, "--op", self.OP, "--json",
            env={**NO_COMPILER, **env}, code=code,
        )

    def test_a_pack_holds_every_entry_once(self):
        made = self.create()
        self.assertEqual(made["entries"], self.total)
        self.assertEqual(made["pack_bytes"], self.pack.stat().st_size)
        self.assertEqual(made["entry_bytes"], sum(path.stat().st_size for path in self.entries()))
        self.assertLess(made["pack_bytes"], made["entry_bytes"])
        self.assertFalse(made["signed"])
        listed = self.kiln_json("pack", "ls", self.pack)
        self.assertIsNone(listed["signed_by"])
        self.assertEqual(sorted(row["key"] for row in listed["entries"]), [path.stem for path in self.entries()])
        self.assertTrue(all(row["ok"] for row in listed["entries"]))
        text = self.kiln("pack", "ls", self.pack).stdout
        self.assertEqual(len(text.splitlines()), self.total)

    def test_creating_leaves_nothing_else_behind_and_replaces_an_older_pack(self):
        self.pack.write_bytes(b"older")
        before = set(self.scratch.iterdir())
        self.create()
        self.assertEqual(set(self.scratch.iterdir()), before)
        self.kiln("pack", "verify", self.pack)

    def test_what_is_there_and_is_no_plain_file_is_not_replaced(self):
        os.mkfifo(self.pack)
        result = self.kiln("pack", "create", "--cache", self.cache, self.pack, code=1)
        self.assertIn("not a plain file", result.stderr)
        self.assertTrue(self.pack.is_fifo())

    def test_relative_paths_are_those_of_the_working_directory(self):
        relative = os.path.relpath(self.pack, self.scratch)
        self.create(pack=relative, cache=os.path.relpath(self.cache, self.scratch))
        self.kiln("pack", "verify", relative)
        self.assertEqual(len(self.kiln_json("pack", "ls", relative)["entries"]), self.total)

    def test_import_copies_what_a_pack_or_a_directory_holds(self):
        self.create()
        for layer in (self.pack, self.cache):
            with self.subTest(layer=layer):
                root = self.scratch / f"root-{layer.name}"
                done = self.kiln_json("cache", "import", layer, "--cache", root)
                self.assertEqual((done["copied"], done["bad"]), (self.total, 0))
                copied = {path.name: path.read_bytes() for path in root.glob("v1/*/*/*.cubin")}
                self.assertEqual(copied, {path.name: path.read_bytes() for path in self.entries()})
        self.kiln("cache", "import", self.scratch / "absent", "--cache", self.scratch / "root", code=1)

    def test_import_leaves_out_what_is_bad_and_fails(self):
        bad = self.entries()[0]
        bad.write_bytes(bad.read_bytes()[:-1])
        root = self.scratch / "root"
        done = self.kiln_json("cache", "import", self.cache, "--cache", root, code=1)
        self.assertEqual((done["copied"], done["bad"]), (self.total - 1, 1))

    def test_two_prebuilds_at_any_number_of_jobs_give_identical_packs(self):
        packs = []
        for jobs in [1, 2]:
            cache = self.scratch / f"jobs{jobs}"
            self.kiln("prebuild", "--cache", cache, "--arch", self.ARCH, "--op", self.OP, "--jobs", jobs)
            pack = self.scratch / f"{jobs}.pack"
            self.create(pack=pack, cache=cache)
            packs.append(pack.read_bytes())
        self.assertEqual(packs[0], packs[1])

    def test_a_pack_serves_every_kernel_where_there_is_no_compiler(self):
        self.create()
        result = self.prebuild({"KILN_CACHE_LAYERS": self.pack})
        self.assertEqual(result.stderr, "")
        self.assertIn(f'"cached": {self.total}', result.stdout)
        self.assertFalse((self.scratch / "empty").exists())

    def test_layers_are_a_list_of_directories_and_packs(self):
        half = self.scratch / "half"
        for path in self.entries()[::2]:
            target = half / path.relative_to(self.cache)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
        self.create()
        layers = f"{self.scratch / 'absent'}:{half}::{self.pack}"
        self.assertIn(f'"cached": {self.total}', self.prebuild({"KILN_CACHE_LAYERS": layers}).stdout)

    def test_a_relative_layer_is_left_out_with_one_warning(self):
        self.create()
        result = self.prebuild({"KILN_CACHE_LAYERS": self.pack.name}, code=1)
        warnings = [line for line in result.stderr.splitlines() if "absolute" in line]
        self.assertEqual(len(warnings), 1, result.stderr)

    def test_verify_notices_any_damage(self):
        self.create()
        content = self.pack.read_bytes()
        for place in [3, len(content) // 2, len(content) - 200, len(content) - 20]:
            with self.subTest(place=place):
                damaged = bytearray(content)
                damaged[place] ^= 1
                self.pack.write_bytes(damaged)
                result = self.kiln("pack", "verify", self.pack, code=1)
                self.assertIn(self.pack.name, result.stderr)
        self.pack.write_bytes(content[:-1])
        self.assert_plain_complaint(self.kiln("pack", "verify", self.pack, code=1))

    def test_extract_gives_the_same_images_as_the_cache(self):
        self.create()
        images = []
        for command, source in [("cache", ["--cache", self.cache]), ("pack", [self.pack])]:
            out = self.scratch / f"out-{command}"
            rows = self.kiln_json(command, "extract", *source, "--out", out)["extracted"]
            self.assertEqual(len(rows), self.total)
            images.append({pathlib.Path(row["path"]).name: pathlib.Path(row["path"]).read_bytes() for row in rows})
        self.assertEqual(images[0], images[1])

    def test_extract_takes_the_beginning_of_a_key(self):
        self.create()
        key = self.entries()[0].stem
        rows = self.kiln_json("pack", "extract", self.pack, key[:12], "--out", self.scratch / "out")["extracted"]
        self.assertEqual(len(rows), 1)
        self.assertIn(key, rows[0]["path"])

    def test_a_bad_entry_is_not_packed_in_silence(self):
        bad = self.entries()[0]
        bad.write_bytes(b"x" * 100)
        result = self.kiln("pack", "create", "--cache", self.cache, self.pack, code=1)
        self.assert_plain_complaint(result)
        self.assertIn(bad.name, result.stderr)
        self.assertFalse(self.pack.exists())

    def test_a_cache_that_is_absent_or_empty_is_a_failure(self):
        (self.scratch / "nothing").mkdir()
        for cache in ["nowhere", "nothing"]:
            with self.subTest(cache=cache):
                result = self.kiln("pack", "create", "--cache", self.scratch / cache, self.pack, code=1)
                self.assert_plain_complaint(result)
                self.assertIn(cache, result.stderr)
                self.assertFalse(self.pack.exists())

    def test_what_is_no_pack_is_a_failure(self):
        self.pack.write_bytes(b"no pack at all" * 100)
        for subcommand in ["ls", "verify", "extract"]:
            for file in [self.pack, self.scratch / "nowhere"]:
                with self.subTest(subcommand=subcommand, file=file):
                    result = self.kiln("pack", subcommand, file, code=1)
                    self.assert_plain_complaint(result)
                    self.assertIn(file.name, result.stderr)

    def test_wrong_usage(self):
        for arguments in [[], ["create", self.pack], ["create", "--cache", self.cache], ["ls"], ["keygen"]]:
            with self.subTest(arguments=arguments):
                self.assert_plain_complaint(self.kiln("pack", *arguments, code=2))

    def test_keygen_makes_a_private_file_and_never_replaces_one(self):
        key = self.keygen()
        self.assertEqual(key.stat().st_mode & 0o777, 0o600)
        self.assertRegex(key.read_text(), r"^kiln-ed25519-secret:[A-Za-z0-9+/]{86}==\n$")
        public = key.with_name("key.pub").read_text()
        self.assertRegex(public, r"^kiln-ed25519-public:[A-Za-z0-9+/]{43}=\n$")
        secret = key.read_text()
        self.assert_plain_complaint(self.kiln("pack", "keygen", key, code=1))
        self.assertEqual(key.read_text(), secret)
        key.unlink()
        self.kiln("pack", "keygen", key, code=1)
        self.assertFalse(key.exists())

    def test_a_signed_pack_is_used_by_those_who_trust_its_key(self):
        key = self.keygen()
        self.assertTrue(self.create("--sign", key)["signed"])
        public = f"{key}.pub"
        report = self.kiln_json("pack", "verify", self.pack, env={"KILN_TRUSTED_KEYS": public})
        self.assertEqual(report["signed_by"], pathlib.Path(public).read_text().strip())
        self.assertEqual(report["problem"], "")
        env = {"KILN_CACHE_LAYERS": self.pack, "KILN_TRUSTED_KEYS": f"{self.keygen('other')}.pub:{public}"}
        self.assertIn(f'"cached": {self.total}', self.prebuild(env).stdout)

    def assert_refused(self, trusted, *words):
        env = {"KILN_CACHE_LAYERS": self.pack, "KILN_TRUSTED_KEYS": trusted}
        for result in [self.prebuild(env, code=1), self.kiln("pack", "verify", self.pack, env=env, code=1)]:
            for word in [str(self.pack), *words]:
                self.assertIn(word, result.stderr)

    def test_a_pack_that_no_trusted_key_signed_is_refused_with_the_reason(self):
        public = f"{self.keygen()}.pub"
        self.create()
        self.assert_refused(public, "not signed")
        other = self.keygen("other")
        self.create("--sign", other)
        self.assert_refused(public, "none of the trusted keys", pathlib.Path(f"{other}.pub").read_text().strip())

    def test_a_pack_that_was_altered_is_refused_with_the_reason(self):
        key = self.keygen()
        self.create("--sign", key)
        content = bytearray(self.pack.read_bytes())
        content[5000] ^= 1
        self.pack.write_bytes(content)
        env = {"KILN_CACHE_LAYERS": self.pack, "KILN_TRUSTED_KEYS": f"{key}.pub"}
        self.assertRegex(self.prebuild(env, code=1).stderr, r"k\.pack is not used: it was altered")

    def test_a_key_file_that_cannot_be_read_refuses_every_pack(self):
        key = self.keygen()
        self.create("--sign", key)
        self.assert_refused(f"{key}.pub:{self.scratch / 'absent.pub'}", "absent.pub", "No such file")
        self.assert_refused(f"{key}.pub:{key}", "secret key")
        self.assert_refused(os.path.relpath(f"{key}.pub", self.scratch), "absolute")

    def test_signing_needs_a_secret_key(self):
        key = self.keygen()
        for wrong in [f"{key}.pub", self.scratch / "absent"]:
            with self.subTest(wrong=wrong):
                result = self.kiln("pack", "create", "--cache", self.cache, self.pack, "--sign", wrong, code=1)
                self.assert_plain_complaint(result)
                self.assertTrue(re.search(r"key file .*(absent|key\.pub)", result.stderr), result.stderr)
                self.assertFalse(self.pack.exists())


if __name__ == "__main__":
    unittest.main()
