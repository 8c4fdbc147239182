"""An op that nobody has heard of comes out of the generator as a function."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

GENERATOR = Path(__file__).resolve().parent.parent / "generate" / "write_ops.py"


def tensor(name: str, dtypes: list[str], shape: list, access: str = "read", **more) -> dict:
    described = {"name": name, "summary": f"what {name} is", "optional": False, "dtypes": dtypes, "shape": shape, "layout": "contiguous"}
    return described | {"alignment": 16, "access": access, "constant": False, "host_memory": False} | more


def described(**changes) -> dict:
    op = {
        "name": "brand_new",
        "family": "test",
        "summary": "y = x, in another way",
        "args": [
            tensor("x", ["bf16"], ["m...", "k"]),
            {"name": "eps", "summary": "", "optional": False, "scalar": "f32"},
            tensor("hint", ["i32"], ["m"], optional=True),
            tensor("y", ["bf16"], ["m...", "k"], "write"),
            tensor("other", ["f32"], ["p"], "write"),
        ],
        "min_compute_capability": 90,
        "archs": ["sm_90"],
        "sources": ["test/brand_new.cuh"],
        "workspace": False,
    }
    return op | changes


def generate(folder: Path, op: dict) -> subprocess.CompletedProcess:
    listed = folder / "ops.json"
    listed.write_text(json.dumps([op]))
    return subprocess.run([sys.executable, GENERATOR, listed, "1.2.3", folder], capture_output=True, text=True)


def test_a_new_op_gets_a_function_and_a_stub(tmp_path):
    assert generate(tmp_path, described()).returncode == 0
    shown = (
        "def brand_new(x: Any, eps: float, *, hint: Any = None, y: Any = None, other: Any, "
        "stream: Any = None, options: LaunchOptions | None = None, workspace: Any = None) -> tuple[Any, Any]:"
    )
    module = (tmp_path / "_ops.py").read_text()
    assert shown in module
    assert "kernel_templates/test/brand_new.cuh" in module
    compile(module, "_ops.py", "exec")
    assert shown + " ..." in (tmp_path / "_ops.pyi").read_text()
    assert (tmp_path / "_version.py").read_text() == '__version__ = "1.2.3"\n'


def test_a_name_that_python_cannot_have_is_refused(tmp_path):
    for name in ("lambda", "stream", "no-name", "make"):
        op = described()
        op["args"][0]["name"] = name
        result = generate(tmp_path, op)
        assert result.returncode != 0
        assert "brand_new" in result.stderr and name in result.stderr


def test_a_name_that_the_package_has_is_refused(tmp_path):
    result = generate(tmp_path, described(name="warmup"))
    assert result.returncode != 0
    assert "warmup" in result.stderr
