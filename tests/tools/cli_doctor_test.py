"""kiln doctor."""

import os
import unittest

from support import KilnTest


class Doctor(KilnTest):
    def test_json_says_what_was_found_where(self):
        report = self.kiln_json("doctor")
        self.assertTrue(report["ok"])
        self.assertTrue(report["nvrtc"]["usable"])
        self.assertTrue(report["nvrtc"]["path"].startswith("/"))
        self.assertTrue(report["nvrtc"]["builtins_path"].startswith("/"))
        self.assertRegex(report["nvrtc"]["version"], r"^\d+\.\d+$")
        self.assertTrue(report["driver"]["found"] or report["driver"]["problem"])
        self.assertEqual(report["cache"]["root"], str(self.home / ".cache/kiln"))
        self.assertEqual(
            {row["op"] for row in report["ops"]}, {op["name"] for op in self.kiln_json("ops")}
        )
        for row in report["ops"]:
            self.assertIn(row["ability"], ["loadable", "compilable"])
            self.assertTrue(row["reason"])

    def test_the_cache_root_is_given_with_the_setting_that_chose_it(self):
        report = self.kiln_json("doctor", env={"KILN_CACHE_DIR": self.cache})
        self.assertEqual(report["cache"]["root"], str(self.cache))
        self.assertIn("KILN_CACHE_DIR", report["cache"]["why"])

    def test_a_refused_root_the_fallback_limits_and_layers_are_given(self):
        root = self.home / ".cache/kiln"
        root.mkdir(parents=True)
        root.chmod(0o777)
        layer = self.scratch / "layer"
        layer.mkdir()
        layer.chmod(0o777)
        env = {
            "TMPDIR": self.scratch,
            "KILN_CACHE_LAYERS": layer,
            "KILN_CACHE_MAX_BYTES": "2K",
            "KILN_CACHE_MAX_AGE": "1h",
        }
        cache = self.kiln_json("doctor", env=env)["cache"]
        self.assertEqual(cache["trust"], "refused")
        self.assertIn("everybody can write", cache["trust_reason"])
        self.assertTrue(cache["fallback"].startswith(f"{self.scratch}/kiln-"))
        self.assertEqual(cache["limits"], {"max_bytes": 2048, "max_age": 3600})
        own, shipped = cache["layers"]
        self.assertEqual((own["path"], own["writable"], own["problem"]), (cache["fallback"], True, ""))
        self.assertEqual((shipped["path"], shipped["usable"]), (str(layer), False))
        text = self.kiln("doctor", env=env).stdout
        for words in ["refused: everybody can write", "2048 bytes", "3600 seconds", str(layer)]:
            self.assertIn(words, text)

    def test_row_85_an_op_that_can_neither_be_loaded_nor_compiled_makes_it_fail(self):
        """Field report 85."""
        missing = {"KILN_NVRTC": "/nonexistent/libnvrtc.so"}
        report = self.kiln_json("doctor", code=1, env=missing)
        self.assertFalse(report["ok"])
        self.assertFalse(report["nvrtc"]["usable"])
        self.assertIn("/nonexistent/libnvrtc.so", report["nvrtc"]["problem"])
        self.assertTrue(all(row["ability"] == "neither" for row in report["ops"]))
        self.assertIn("neither", self.kiln("doctor", code=1, env=missing).stderr)

    def test_what_can_be_done_about_a_missing_op_is_said_last(self):
        missing = {"KILN_NVRTC": "/nonexistent/libnvrtc.so"}
        said = self.kiln("doctor", "--cache", self.cache, code=1, env=missing).stderr
        self.assertRegex(said, rf"KILN_NVRTC.*kiln prebuild --arch \S+ --cache '{self.cache}'\.\n$")
        said = self.kiln("doctor", "--cache", self.cache, code=1, env={"KILN_JIT": "forbid"}).stderr
        self.assertRegex(said, rf"KILN_JIT=allow.*kiln prebuild --arch \S+ --cache '{self.cache}'\.\n$")

    def test_without_a_gpu_it_says_which_architecture_is_assumed_and_why(self):
        report = self.kiln_json("doctor")
        if report["driver"]["devices"]:
            self.skipTest("there is a GPU here, and nothing is assumed")
        text = self.kiln("doctor").stdout
        self.assertRegex(text, rf"(?m)^assumed   {report['ops'][0]['arch']}, since there is no device here: the newest ")
        self.assertIn("the newest architecture that Kiln knows", self.kiln("doctor", code=1, env={"KILN_JIT": "forbid"}).stdout)

    def test_without_a_gpu_all_ops_are_looked_at_for_what_the_cache_holds_most_of(self):
        if self.kiln_json("doctor")["driver"]["devices"]:
            self.skipTest("there is a GPU here, and nothing is assumed")
        self.kiln("prebuild", "--arch", "sm_90a", "--op", "engram_*", "--cache", self.cache)
        self.kiln("prebuild", "--arch", "sm_100a", "--op", "engram_gather", "--cache", self.cache)
        for env, code in [({}, 0), ({"KILN_JIT": "forbid"}, 1)]:
            text = self.kiln("doctor", "--cache", self.cache, code=code, env=env).stdout
            self.assertIn("assumed   sm_90a, since there is no device here: the architecture that the cache holds most of", text)
            ops = [line for line in text.splitlines() if line.startswith("op  ")]
            self.assertTrue(all(" for sm_90a: " in line for line in ops))
            self.assertTrue(any("engram_hash_ids for sm_90a: loadable" in line for line in ops))

    def test_without_a_driver_it_names_what_who_types_can_do(self):
        report = self.kiln_json("doctor")
        if report["driver"]["found"]:
            self.skipTest("there is a driver here")
        for said in (report["driver"]["problem"], self.kiln("doctor").stdout):
            self.assertIn("LD_LIBRARY_PATH", said)
            self.assertNotIn("EngineOptions", said)

    def test_the_cache_may_be_named(self):
        report = self.kiln_json("doctor", "--cache", self.cache)
        self.assertEqual(report["cache"]["root"], str(self.cache))
        self.kiln("doctor", "--cache=", code=2)

    def test_where_compiling_is_forbidden_no_nvrtc_is_missed(self):
        env = {"KILN_JIT": "forbid", "KILN_NVRTC": "/nonexistent/libnvrtc.so"}
        report = self.kiln_json("doctor", code=1, env=env)
        self.assertEqual(report["compiling"],
                         {"policy": "forbid", "in_process": False, "worker": "", "worker_problem": ""})
        self.assertEqual((report["nvrtc"]["usable"], report["nvrtc"]["problem"]), (False, ""))
        self.assertEqual({row["ability"] for row in report["ops"]}, {"neither"})
        self.assertTrue(all("compiling is forbidden" in row["reason"] for row in report["ops"]))
        said = self.kiln("doctor", code=1, env=env)
        self.assertIn("compiling forbidden", said.stdout)
        self.assertNotIn("/nonexistent", said.stdout)
        self.assertIn("compiling is forbidden", said.stderr)

    def test_it_says_where_the_compile_worker_is_or_why_there_is_none(self):
        worker = self.kiln_json("doctor")["compiling"]["worker"]
        self.assertTrue(os.access(worker, os.X_OK), worker)
        self.assertIn(f"worker    {worker}", self.kiln("doctor").stdout)
        env = {"KILN_COMPILE_WORKER": "/nonexistent/worker"}
        compiling = self.kiln_json("doctor", env=env)["compiling"]
        self.assertEqual(compiling["worker"], "")
        self.assertIn("/nonexistent/worker", compiling["worker_problem"])
        self.assertIn("worker    none: ", self.kiln("doctor", env=env).stdout)
        self.assertTrue(self.kiln_json("doctor", env={"KILN_COMPILE_IN_PROCESS": "1"})["compiling"]["in_process"])

    def test_text_names_compiler_cache_and_ops(self):
        text = self.kiln("doctor").stdout
        for word in ["driver", "nvrtc", "builtins", "cache", "n128k512_gemm_bf16", "n32k5120_gemm_bf16"]:
            self.assertIn(word, text)

    def test_it_writes_nothing(self):
        self.kiln("doctor")
        self.assertEqual(list(self.home.rglob("*")), [])


if __name__ == "__main__":
    unittest.main()
