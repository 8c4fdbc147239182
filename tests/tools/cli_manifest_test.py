"""kiln manifest, and the manifests that prebuild reads."""

import fcntl
import json
import os
import subprocess
import unittest

from support import KilnTest

OP = "n128k512_gemm_bf16"


def variant(split=1, pdl="true", op=OP, target="sm_90a", kernel="gemm", **changes):
    traits = {"M_SPLIT": str(split), "PDL": pdl, "ROW_WARPS": "1"}
    return {"op": op, "kernel": kernel, "traits": traits, "target": target, **changes}


class ManifestTest(KilnTest):
    def manifest(self, name, *variants, **changes):
        path = self.scratch / name
        path.write_text(json.dumps({"kiln_manifest": 1, "variants": list(variants), **changes}), encoding="utf-8")
        return path


class Manifest(ManifestTest):
    def test_merging_is_the_union_in_one_order_whatever_the_order_of_the_files(self):
        a = self.manifest("a.json", variant(2), variant(1))
        b = self.manifest("b.json", variant(1), variant(1, target="sm_100a"))
        for out, files in (("ab.json", (a, b)), ("ba.json", (b, a))):
            result = self.kiln("manifest", "merge", *files, "-o", out)
            self.assertEqual(result.stdout, f"{self.scratch / out}: 3 variants\n")
        merged = (self.scratch / "ab.json").read_bytes()
        self.assertEqual(merged, (self.scratch / "ba.json").read_bytes())
        self.assertEqual(len(json.loads(merged)["variants"]), 3)
        self.assertEqual(len(merged.splitlines()), 2 + 3)

    def test_merging_into_one_of_the_files_is_possible_and_leaves_its_lock_beside_it(self):
        a = self.manifest("a.json", variant(1))
        b = self.manifest("b.json", variant(2))
        report = self.kiln_json("manifest", "merge", a, b, "-o", a)
        self.assertEqual(report, {"path": str(a), "variants": 2})
        left = sorted(path.name for path in self.scratch.glob("*.json*"))
        self.assertEqual(left, ["a.json", "a.json.lock", "b.json"])

    def test_merging_into_something_that_is_no_plain_file_is_refused_and_leaves_it(self):
        pipe = self.scratch / "pipe"
        os.mkfifo(pipe)
        result = self.kiln("manifest", "merge", self.manifest("a.json", variant(1)), "-o", pipe, code=1)
        self.assertIn("is there already and is not a plain file", result.stderr)
        self.assertTrue(pipe.is_fifo())

    def test_merging_waits_for_an_engine_that_records_into_the_file(self):
        out = self.manifest("out.json", variant(1))
        other = self.manifest("other.json", variant(2))
        with open(f"{out}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = [os.environ["KILN"], "manifest", "merge", out, other, "-o", out]
            merging = subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL)
            with self.assertRaises(subprocess.TimeoutExpired):
                merging.wait(timeout=0.5)
            self.manifest("out.json", variant(1), variant(3))  # As the engine does before it lets go.
        self.assertEqual(merging.wait(timeout=30), 0)
        self.assertEqual(len(json.loads(out.read_text(encoding="utf-8"))["variants"]), 3)

    def test_showing_lists_the_variants_and_says_which_no_longer_exist(self):
        path = self.manifest("a.json", variant(1), variant(99), variant(1, op="n128k512_gemm_bf61"))
        shown = self.kiln("manifest", "show", path).stdout
        self.assertIn(f"{OP}/gemm M_SPLIT=1 PDL=true ROW_WARPS=1 sm_90a\n", shown)
        self.assertIn("the trait M_SPLIT has no value 99; it has 1, ", shown)
        self.assertIn(f'did you mean "{OP}"?', shown)
        self.assertTrue(shown.endswith("3 variants, 2 of which no longer exist\n"))
        report = self.kiln_json("manifest", "show", path)
        self.assertEqual(report["missing"], 2)
        self.assertEqual([row["problem"] == "" for row in report["variants"]], [True, False, False])
        self.assertEqual(report["variants"][0]["traits"], {"M_SPLIT": "1", "PDL": "true", "ROW_WARPS": "1"})
        self.assertEqual(report["variants"][0]["arch"], "sm_90a")

    def test_a_file_that_is_no_manifest_is_named_and_nothing_is_written(self):
        good = self.manifest("good.json", variant(1))
        cases = {
            "absent": None,
            "thesis": "chapter one",
            "version": '{"kiln_manifest": 2, "variants": []}',
            "field": '{"kiln_manifest": 1, "variants": [], "more": 1}',
        }
        for name, text in cases.items():
            path = self.scratch / name
            if text is not None:
                path.write_text(text, encoding="utf-8")
            with self.subTest(name):
                result = self.kiln("manifest", "merge", good, path, "-o", self.scratch / "out", code=1)
                self.assert_plain_complaint(result)
                self.assertIn(str(path), result.stderr)
                self.assertFalse((self.scratch / "out").exists())

    def test_wrong_usage_exits_2(self):
        a = self.manifest("a.json", variant(1))
        for wrong in ([], ["merge"], ["merge", a], ["merge", "-o", a], ["show"], ["burn", a]):
            self.assert_plain_complaint(self.kiln("manifest", *wrong, code=2))


if __name__ == "__main__":
    unittest.main()
