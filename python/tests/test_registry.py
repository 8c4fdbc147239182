"""Every op of the registry is a function, and its signature is what the registry says."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
from pathlib import Path

import pytest

import kiln
from kiln import _native, _ops, _registry, _signature
from kiln._registry import parse_dim


def command_says() -> list[dict]:
    program = _native.LIBRARIES / "kiln"
    return json.loads(subprocess.run([program, "ops", "--json"], check=True, capture_output=True, text=True).stdout)


def test_the_package_has_the_ops_that_the_command_lists():
    names = [op["name"] for op in command_says()]
    assert len(names) > 20
    assert names == [op.name for op in _registry.ops()] == _ops.__all__
    for name in names:
        assert callable(getattr(kiln, name))


def test_the_library_registers_the_same_ops():
    with kiln.Engine() as engine:
        assert engine.op_names() == _ops.__all__


@pytest.mark.parametrize("described", command_says(), ids=lambda described: described["name"])
def test_a_signature_is_what_the_registry_says(described):
    shown = inspect.signature(getattr(kiln, described["name"])).parameters
    args = {arg["name"]: arg for arg in described["args"]}
    details = ["stream", "options", "workspace"]
    assert sorted(shown) == sorted([*args, *details])
    assert list(shown)[-3:] == details
    inputs = [arg["name"] for arg in described["args"] if arg.get("access") != "write"]
    outputs = [arg["name"] for arg in described["args"] if arg.get("access") == "write"]
    assert list(shown)[:-3] == inputs + outputs
    for name, parameter in shown.items():
        assert parameter.default in (parameter.empty, None)
        if name in args and args[name]["optional"]:
            assert parameter.default is None
        if name in outputs or name in details:
            assert parameter.kind is parameter.KEYWORD_ONLY
        elif not args[name]["optional"]:
            assert parameter.default is parameter.empty


@pytest.mark.parametrize("op", _registry.ops(), ids=lambda op: op.name)
def test_a_docstring_says_shapes_dtypes_errors_and_the_source(op):
    text = inspect.getdoc(getattr(kiln, op.name))
    unfolded = " ".join(text.split())
    assert " ".join(op.summary.rstrip(".").split()) in unfolded
    for arg in op.args:
        assert f"\n    {arg.name}: " in text
        if arg.is_tensor:
            assert f"{' or '.join(arg.dtypes)} [{', '.join(dim.text for dim in arg.shape)}]" in unfolded
    assert "InvalidArgumentError" in text
    for source in op.sources:
        assert f"kernel_templates/{source}" in unfolded


def test_the_stubs_are_the_functions():
    folder = Path(_ops.__file__).parent
    stub, module = (ast.parse((folder / name).read_text(encoding="utf-8")) for name in ("_ops.pyi", "_ops.py"))

    def functions(tree: ast.Module) -> dict[str, tuple[str, str]]:
        return {node.name: (ast.unparse(node.args), ast.unparse(node.returns)) for node in tree.body if isinstance(node, ast.FunctionDef)}

    assert functions(stub) == functions(module)
    assert list(functions(stub)) == _ops.__all__
    assert (folder / "py.typed").is_file()


def test_axes_are_read_as_the_registry_writes_them():
    assert [parse_dim(axis).kind for axis in (512, "m", "m...", "n-1", "ceil128(m)*ceil4(k/32)")] == [
        "fixed",
        "symbol",
        "leading",
        "derived",
        "derived",
    ]
    assert parse_dim("m...").symbol == "m"


def test_descriptions_cannot_be_changed():
    op = _registry.op("rmsnorm")
    with pytest.raises(AttributeError):
        op.name = "other"
    with pytest.raises(AttributeError):
        op.args[0].name = "other"


def test_parameters_are_positional_up_to_the_first_optional_one():
    parameters = {p.arg.name: p for p in _signature.parameters(_registry.op("engram_hash_ids"))}
    assert parameters["pad_id"].positional
    assert not parameters["num_real"].positional and not parameters["num_real"].required
    assert parameters["ids"].required != (parameters["ids"].arg in _signature.allocatable(_registry.op("engram_hash_ids")))
