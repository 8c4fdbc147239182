"""What importing the package does, and does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BLOCK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "numpy", "cupy", "jax", "numba"}:
            raise ImportError(name + " is not here")
sys.meta_path.insert(0, Refuse())
"""


def run(code: str, home: Path, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin", **environment},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_importing_loads_no_library_and_writes_nothing(tmp_path):
    code = BLOCK + "import kiln; print(kiln.__version__, 'tvm_ffi' in sys.modules, 'libkiln' in open('/proc/self/maps').read())"
    version, *loaded = run(code, tmp_path, KILN_NVRTC="/nonexistent", KILN_CACHE_DIR=str(tmp_path / "cache")).split()
    assert version.count(".") == 2
    assert loaded == ["False", "False"]
    assert list(tmp_path.iterdir()) == []


def test_an_engine_is_made_without_driver_compiler_and_torch(tmp_path):
    code = BLOCK + "import kiln; print(kiln.stats()['compiles'], len(kiln.default_engine().op_names()) > 20)"
    assert run(code, tmp_path, KILN_NVRTC="/nonexistent").split() == ["0", "True"]


def test_the_shared_engine_is_made_once_by_many_threads(tmp_path):
    code = """
import kiln, threading
engines = set()
barrier = threading.Barrier(16)
def ask():
    barrier.wait()
    engines.add(id(kiln.default_engine()))
threads = [threading.Thread(target=ask) for _ in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(engines))
"""
    assert run(code, tmp_path).strip() == "1"


def test_a_call_without_a_driver_says_so_and_what_can_be_done_in_python(tmp_path):
    code = """
import kiln
x = kiln.TensorSpec((3, 512), "bf16")
w = kiln.TensorSpec((512,), "bf16")
engine = kiln.Engine(driver="/nonexistent/libcuda.so.1")
report = engine.warmup([kiln.Call("rmsnorm", x, w, 1e-6)], strict=False)
print(report.failures[0].status, report.failures[0].message)
try:
    engine.plan("rmsnorm", x, w, 1e-6)
except kiln.DriverUnavailableError as error:
    print(error.status, error)
"""
    for line in run(code, tmp_path).splitlines():
        assert line.startswith("driver_unavailable")
        assert "kiln.Engine(driver=...)" in line and "EngineOptions" not in line


def fake_torch(folder: Path, rules: str) -> None:
    """A torch of which nothing is there but what its compiler is told."""
    package = folder / "torch" / "_dynamo"
    package.mkdir(parents=True)
    (package / "trace_rules.py").write_text(rules)
    for at in (package, package.parent):
        (at / "__init__.py").touch()


@pytest.mark.parametrize("order", ["kiln, torch._dynamo.trace_rules as rules", "torch._dynamo.trace_rules as rules, kiln"])
def test_the_compiler_of_torch_is_told_to_leave_the_package_alone_whichever_comes_first(tmp_path, order):
    fake_torch(tmp_path, "added = []\ndef add(name):\n    added.append(name)\n")
    finders = run("import sys; print(len(sys.meta_path))", tmp_path).strip()
    told = run(f"import {order}, sys; print(rules.added, len(sys.meta_path))", tmp_path, PYTHONPATH=str(tmp_path))
    assert told.split() == ["['kiln']", finders]


def test_a_torch_whose_compiler_is_told_otherwise_is_imported_all_the_same(tmp_path):
    fake_torch(tmp_path, "")
    code = "import kiln, torch._dynamo.trace_rules as rules; print(rules.__name__)"
    assert run(code, tmp_path, PYTHONPATH=str(tmp_path)).strip() == "torch._dynamo.trace_rules"
