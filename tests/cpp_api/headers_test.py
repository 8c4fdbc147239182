"""Each header of the C++ door compiles alone, without a warning, with each compiler that is here; and it knows nothing but kiln.h."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include"
HEADERS = ["kiln/kiln.hpp", *(f"kiln/cpp/{path.name}" for path in sorted((INCLUDE / "kiln/cpp").glob("*.hpp")))]
CLANG = shutil.which("clang++-14") or shutil.which("clang++")
COMPILERS = [os.environ["CXX"].split(";")[-1], *([CLANG] if CLANG else [])]
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wold-style-cast", "-Werror"]


def compile_text(compiler, text, *flags):
    return subprocess.run([compiler, "-x", "c++", "-", "-fsyntax-only", *STRICT, *flags, "-I", INCLUDE, "-idirafter", os.environ["KILN_DLPACK_INCLUDE"]],
                          input=text, capture_output=True, text=True, check=False)


class HeadersTest(unittest.TestCase):
    def assert_compiles(self, text, *flags):
        for compiler in COMPILERS:
            with self.subTest(text=text, compiler=compiler, flags=flags):
                done = compile_text(compiler, text, *flags)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_each_header_compiles_alone(self):
        self.assertGreater(len(HEADERS), 10)
        for header in HEADERS:
            self.assert_compiles(f"#include <{header}>\n", "-std=c++17")

    def test_the_door_compiles_in_later_versions_and_without_type_information(self):
        for flags in (["-std=c++20"], ["-std=c++17", "-fno-rtti"]):
            self.assert_compiles("#include <kiln/kiln.hpp>\n", *flags)

    def test_an_older_version_is_told_what_it_needs(self):
        for compiler in COMPILERS:
            self.assertIn("needs C++17", compile_text(compiler, "#include <kiln/kiln.hpp>\n", "-std=c++14").stderr)

    def test_the_umbrella_has_every_part(self):
        included = re.findall(r"#include <(kiln/cpp/.*)>", (INCLUDE / "kiln/kiln.hpp").read_text(encoding="utf-8"))
        self.assertEqual(sorted(included), HEADERS[1:])


if __name__ == "__main__":
    unittest.main()
