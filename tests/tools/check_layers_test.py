"""scripts/check_layers.py finds each kind of violation, and passes the tree as it is."""

import subprocess
import sys
import unittest

from support import REPOSITORY, ScratchTest

SCRIPT = REPOSITORY / "scripts/check_layers.py"


class CheckLayers(ScratchTest):
    def check(self, files):
        for name, text in files.items():
            path = self.scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, SCRIPT, self.scratch], capture_output=True, text=True, check=False)

    def assert_refused(self, name, text, because):
        result = self.check({name: text})
        self.assertEqual(result.returncode, 1)
        self.assertIn(because, result.stderr)
        self.assertIn(name, result.stderr)
        (self.scratch / name).unlink()

    def test_the_repository_follows_its_rules(self):
        result = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_what_the_rules_allow_passes(self):
        files = {
            "runtime/engine.cpp": '#include "cache/store.hpp"\n#include "trait_registry/check.hpp"\n#include <cuda.h>\n',
            "cache/store.cpp": '#include "base/result.hpp"\n#include <kiln/log.hpp>\n// A cubin by another name.\n',
            "tests/own_op_test.cpp": 'auto text = R"cuda(\n#include "prelude/bf16.cuh"\n)cuda";\n',
            "kernel_templates/a/b.cuh": '#include "c.cuh"\n',
            "kernel_templates/c.cuh": "",
        }
        result = self.check(files)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_lower_layer_may_not_include_a_higher_one(self):
        self.assert_refused("cache/a.cpp", '#include "runtime/engine_impl.hpp"\n', "cache/ may not include runtime/")
        self.assert_refused("cache/a.cpp", '#include "trait_registry/check.hpp"\n', "cache/ may not include")
        self.assert_refused("trait_registry/a.cpp", '#include "cache/key.hpp"\n', "trait_registry/ may not include cache/")
        self.assert_refused("base/a.cpp", '#include "cache/key.hpp"\n', "base/ may not include cache/")
        self.assert_refused("runtime/a.cpp", '#include "tools/console.hpp"\n', "runtime/ may not include tools/")
        self.assert_refused("tests/a.cpp", '#include "bench/a.hpp"\n', "tests/ may not include bench/")

    def test_the_cache_knows_no_op_and_no_cuda(self):
        self.assert_refused("cache/a.cpp", "#include <kiln/op.hpp>\n", "may not know <kiln/op.hpp>")
        self.assert_refused("cache/a.cpp", "int cubin_size = 0;\n", "'cubin'")
        self.assert_refused("cache/a.cpp", "#include <cuda.h>\n", "may not include <cuda.h>")

    def test_the_registry_knows_no_driver(self):
        self.assert_refused("trait_registry/a.cpp", "#include <cuda.h>\n", "may not include <cuda.h>")

    def test_the_reference_uses_the_standard_library_only(self):
        self.assert_refused("reference/a.cpp", "#include <fmt/format.h>\n", "standard library only")
        self.assert_refused("reference/a.cpp", '#include "base/result.hpp"\n', "reference/ may not include base/")

    def test_public_headers_show_no_third_party_type_but_dlpack(self):
        self.assert_refused("include/kiln/a.hpp", "#include <spdlog/spdlog.h>\n", "may not include")
        self.assert_refused("include/kiln/a.hpp", "#include <tl/expected.hpp>\n", "a public header may not include")
        self.assert_refused("include/kiln/a.hpp", '#include "base/result.hpp"\n', "include/ may not include base/")

    def test_the_door_and_the_library_do_not_see_each_other(self):
        for before in ("include/kiln/cpp/a.hpp", "examples/a.cpp", "python/a.cpp"):
            self.assert_refused(before, "#include <kiln/engine.hpp>\n", "may not know <kiln/engine.hpp>")
        for behind in ("api/kiln/a.hpp", "runtime/a.cpp", "c_api/a.cpp", "tools/a.cpp"):
            self.assert_refused(behind, "#include <kiln/cpp/engine.hpp>\n", "may not know <kiln/cpp/engine.hpp>")
            self.assert_refused(behind, "#include <kiln/kiln.hpp>\n", "may not know <kiln/kiln.hpp>")
        result = self.check({"examples/a.cpp": "#include <kiln/kiln.hpp>\n", "include/kiln/kiln.hpp": "#include <kiln/cpp/a.hpp>\n",
                             "c_api/a.cpp": "#include <kiln/kiln.h>\n#include <kiln/engine.hpp>\n"})
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_kernel_template_includes_no_host_or_toolkit_header(self):
        self.assert_refused("kernel_templates/a.cuh", "#include <cuda_bf16.h>\n", "no host or toolkit header")
        self.assert_refused("kernel_templates/a.cuh", '#include "cuda_bf16.h"\n', "is no file of kernel_templates/")

    def test_includes_start_at_the_repository_root(self):
        self.assert_refused("cache/a.cpp", '#include "key.hpp"\n', "does not start at the repository root")
        self.assert_refused("cache/a.cpp", '#include "../base/result.hpp"\n', "does not start at the repository root")


if __name__ == "__main__":
    unittest.main()
