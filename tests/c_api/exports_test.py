"""The shared library exports exactly what kiln.h declares, has a versioned soname, and the header is plain C."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = os.environ["KILN_SHARED"]
HEADER = ROOT / "include/kiln/kiln.h"


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def declared():
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"^KILN_API\s[^(;]*?\b(kiln_\w+)\(", text, flags=re.MULTILINE))


class ExportsTest(unittest.TestCase):
    def test_exports_are_what_the_header_declares(self):
        lines = run("nm", "-D", "--defined-only", LIBRARY).splitlines()
        exported = {line.split()[-1] for line in lines}
        self.assertEqual(exported, declared())
        self.assertGreater(len(exported), 20)

    def test_every_function_of_the_header_is_marked_for_export(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
        functions = set(re.findall(r"\b(kiln_\w+)\([^)]*\);", text.replace("\n", " ")))
        self.assertEqual(functions, declared())

    def test_soname_has_the_version_that_the_policy_says(self):
        version = (ROOT / "include/kiln/version.h").read_text(encoding="utf-8")
        major, minor = (re.search(rf"KILN_VERSION_{part} (\d+)", version).group(1) for part in ("MAJOR", "MINOR"))
        soname = re.search(r"SONAME.*\[(.*)\]", run("readelf", "-d", LIBRARY)).group(1)
        self.assertEqual(soname, f"libkiln.so.{major}.{minor}" if major == "0" else f"libkiln.so.{major}")

    def test_library_needs_only_glibc(self):
        run(str(ROOT / "scripts/check_needed.sh"), LIBRARY)

    def test_header_is_c_and_cxx_by_itself(self):
        include = ["-I", str(ROOT / "include"), "-isystem", os.environ["KILN_DLPACK_INCLUDE"]]
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "only.c")
            source.write_text("#include <kiln/kiln.h>\nint main(void) { return kiln_version() == 0; }\n", encoding="utf-8")
            for compiler, language in (("CC", ["-xc", "-std=c11"]), ("CXX", ["-xc++", "-std=c++20"])):
                with self.subTest(language=language):
                    run(os.environ[compiler].split(";")[-1], *language, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
                        *include, str(source))


if __name__ == "__main__":
    unittest.main()
