"""Projects that use Kiln in each of the ways that it is shipped: installed, from a tarball, from a .deb, by
pkg-config, and as a part of their own build. What is built already is installed and packed as it is."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ["KILN_BUILD"])
DRIVER = os.environ["KILN_FAKE_DRIVER"]
CC, CXX = os.environ["CC"], os.environ["CXX"]
CLANG = shutil.which("clang++-14") or shutil.which("clang++")
PROGRAMS = ("uses_c", "uses_cpp_shared", "uses_cpp")


def run(*command, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KILN_") or k == "KILN_NVRTC"}
    environment.update({k: str(v) for k, v in more.pop("env", {}).items()})
    done = subprocess.run([str(part) for part in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=600, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout[-6000:]}")
    return done.stdout


class PackagingTest(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="kiln-packaging-"))
        self.addCleanup(shutil.rmtree, self.scratch)

    def install(self):
        prefix = self.scratch / "prefix"
        run("cmake", "--install", BUILD, "--prefix", prefix)
        return prefix

    def pack(self, generator, pattern):
        packages = self.scratch / "packages"
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", generator, "-B", packages)
        found = list(packages.glob(pattern))
        self.assertEqual(len(found), 1, found)
        return found[0]

    def check_program(self, program):
        """Compiles once, in a worker that it finds by itself, without a warning; then not again."""
        cache = self.scratch / f"cache-{program.name}"
        first = run(program, DRIVER, cache)
        if "no NVRTC" not in first:
            self.assertIn("compiled 1", first)
            self.assertIn("compiled 0", run(program, DRIVER, cache))

    def check_consumer(self, *settings, build=None, cxx=CXX):
        build = build or self.scratch / "consumer"
        run("cmake", "-S", HERE / "cmake_consumer", "-B", build, "-G", "Ninja", f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={cxx}",
            "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF", *settings)
        run("cmake", "--build", build)
        for name in PROGRAMS:
            self.check_program(build / name)
        return build

    def check_installed(self, prefix):
        self.check_consumer(f"-DCMAKE_PREFIX_PATH={prefix}")
        self.assertTrue((prefix / "libexec/kiln/kiln-compile-worker").is_file())
        self.assertIn("kiln 0.", run(prefix / "bin/kiln", "--version"))
        self.assertEqual({path.name for path in (prefix / "include/kiln").iterdir()},
                         {"cpp", "kiln.h", "kiln.hpp", "third_party", "version.h"})
        for path in prefix.rglob("*"):
            if path.suffix in {".cmake", ".pc", ".h", ".hpp"}:
                text = path.read_text(encoding="utf-8")
                for place in (str(BUILD), str(ROOT)):
                    self.assertNotIn(place, text, f"{path} names {place}")

    def test_find_package_of_what_was_installed(self):
        prefix = self.install()
        self.check_installed(prefix)
        examples = self.scratch / "examples"
        run("cmake", "-S", ROOT / "examples", "-B", examples, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
            f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}")
        run("cmake", "--build", examples)

    def test_compiler_other_than_the_one_that_built_it(self):
        if not CLANG:
            self.skipTest("there is no clang++ here")
        self.check_consumer(f"-DCMAKE_PREFIX_PATH={self.install()}", cxx=CLANG)

    def test_find_package_of_what_was_moved_after_it_was_installed(self):
        self.check_installed(self.install().rename(self.scratch / "elsewhere"))

    def test_tarball(self):
        run("tar", "-xf", self.pack("TGZ", "*.tar.gz"), "-C", self.scratch)
        self.check_installed(next(self.scratch.glob("kiln-*")))

    def test_deb(self):
        if not shutil.which("dpkg-deb"):
            self.skipTest("there is no dpkg-deb here")
        package = self.pack("DEB", "*.deb")
        fields = run("dpkg-deb", "-I", package)
        self.assertIn("Package: kiln", fields)
        self.assertRegex(fields, r"Depends: libc6")
        self.assertNotIn("libstdc++", fields)
        run("dpkg-deb", "-x", package, self.scratch / "root")
        self.check_installed(self.scratch / "root/usr")

    def test_pkg_config(self):
        if not shutil.which("pkg-config"):
            self.skipTest("there is no pkg-config here")
        prefix = self.install()
        env = {"PKG_CONFIG_PATH": prefix / "lib/pkgconfig", "LD_LIBRARY_PATH": prefix / "lib"}

        def flags(*arguments):
            return run("pkg-config", *arguments, env=env).split()

        shared, strict = flags("--cflags", "--libs", "kiln"), ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        run(CC, "-std=c11", *strict, HERE / "uses_c.c", "-o", self.scratch / "uses_c", *shared, f"-Wl,-rpath,{prefix}/lib")
        run(CXX, "-std=c++17", *strict, HERE / "uses_cpp.cpp", "-o", self.scratch / "uses_cpp_shared", *shared, f"-Wl,-rpath,{prefix}/lib")
        worker = flags("--variable=compile_worker", "kiln-static")[0]
        run(CXX, "-std=c++17", *strict, f'-DCOMPILE_WORKER="{worker}"', HERE / "uses_cpp.cpp", "-o", self.scratch / "uses_cpp",
            *flags("--cflags", "--libs", "kiln-static"))
        for name in PROGRAMS:
            self.check_program(self.scratch / name)

    def test_part_of_another_build(self):
        """Kiln is compiled again for it, so only where a compiler cache makes that short: it knows the files again, since this
        build's folder is as deep as the other's. The folder stays, and the next run does only what has changed."""
        ccache = shutil.which("ccache")
        if not ccache:
            self.skipTest("there is no ccache here, and Kiln would be compiled in full")
        build = BUILD.with_name(f"{BUILD.name}-consumer")
        self.check_consumer(f"-DKILN_SOURCE={ROOT}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}", *os.environ["KILN_LIKE"].split("|"),
                            build=build)
        self.assertFalse((build / "kiln/tests").exists())
        self.assertNotIn("kiln", run("cmake", "--install", build, "--prefix", self.scratch / "theirs"))


if __name__ == "__main__":
    unittest.main()
