"""The documents' Python lines: those that need no GPU run, the others are read."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kiln

REPOSITORY = Path(__file__).resolve().parent.parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PYTHON = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8")


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_the_readmes_first_lines_work_as_written(tmp_path):
    code = next(block for block in blocks(README) if "GPU" in block and "torch" not in block)
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(f"{kiln.__version__} with ")
    assert "kernel_templates/layernorm/" in result.stdout


@pytest.mark.parametrize("code", blocks(README) + blocks(PYTHON))
def test_what_documents_call_exists(code):
    compile(code, "document", "exec")
    assert re.search(r"^import (.*, )?kiln\b", code, re.MULTILINE)  # Each can be run alone.
    for name in re.findall(r"\bkiln\.(\w+)", code):
        assert hasattr(kiln, name) or importlib.util.find_spec(f"kiln.{name}"), name


def test_the_op_of_ones_own_works_as_written(machine, engine):
    from machine import Array

    code = next(block for block in blocks(PYTHON) if "register_op" in block)
    names: dict = {}
    exec(code, names)
    x, y, out = (Array((1000,), "f32") for _ in range(3))
    assert names["axpy"](2.0, x, y, out=out) is out
    assert machine.launches()
