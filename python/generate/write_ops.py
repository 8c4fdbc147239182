#!/usr/bin/env python3
"""Writes _ops.py, _ops.pyi and _version.py of the package from what `kiln ops --json` says.

    write_ops.py OPS_JSON VERSION FOLDER

Run by the build. A new op of the registry comes out of this as a function with nothing written by hand.
"""

from __future__ import annotations

import ast
import json
import keyword
import pathlib
import sys
import textwrap
import types

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "src" / "kiln"

# The package itself cannot be imported before this has run, its parts can.
package = types.ModuleType("kiln")
package.__path__ = [str(SOURCES)]
sys.modules["kiln"] = package

from kiln._outputs import required  # noqa: E402
from kiln._registry import Arg, Op, parse_op  # noqa: E402
from kiln._shapes import allocatable, dtype_source  # noqa: E402
from kiln._signature import Parameter, parameters, returned  # noqa: E402

# What every function takes beside its op's arguments.
DETAILS = ("stream", "options", "workspace")
SCALARS = {"i32": "int", "i64": "int", "f32": "float", "bool": "bool"}
WIDTH = 140


def package_names() -> set[str]:
    """What the package itself calls by a name without an underscore, which no op may have."""
    source = (SOURCES / "__init__.py").read_text(encoding="utf-8")
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def check_names(op: Op) -> None:
    if op.name in package_names():
        raise SystemExit(f"{op.name}: the package has something of that name")
    for name in (op.name, *(arg.name for arg in op.args)):
        if not name.isidentifier() or keyword.iskeyword(name) or name in DETAILS:
            raise SystemExit(f"{op.name}: {name!r} cannot be a name in a Python signature beside {', '.join(DETAILS)}")


def annotation(parameter: Parameter) -> str:
    kind = "Any" if parameter.arg.is_tensor else SCALARS[parameter.arg.scalar or ""]
    return kind if parameter.required or kind == "Any" else f"{kind} | None"


def signature(op: Op) -> str:
    shown: list[str] = []
    keywords = False
    for parameter in parameters(op):
        if not parameter.positional and not keywords:
            keywords = True
            shown.append("*")
        default = "" if parameter.required else " = None"
        shown.append(f"{parameter.arg.name}: {annotation(parameter)}{default}")
    if not keywords:
        shown.append("*")
    shown += ["stream: Any = None", "options: LaunchOptions | None = None", "workspace: Any = None"]
    return ", ".join(shown)


def returns(op: Op) -> str:
    outputs = returned(op)
    return "None" if not outputs else "Any" if len(outputs) == 1 else f"tuple[{', '.join('Any' for _ in outputs)}]"


def describe(op: Op, parameter: Parameter) -> str:
    arg = parameter.arg
    parts = [arg.summary.rstrip(".")] if arg.summary else []
    if arg.is_tensor:
        parts.append(f"{' or '.join(arg.dtypes)} [{', '.join(dim.text for dim in arg.shape)}], {layout(arg)}")
        parts += {"read": [], "write": ["written"], "read_write": ["changed in place"]}[arg.access]
        parts += ["constant: may be read before the PDL wait"] if arg.constant else []
        parts += ["also in host memory that the device can address"] if arg.host_memory else []
    else:
        parts.append(arg.scalar or "")
    if not parameter.required:
        parts.append(made(op, arg) if arg in allocatable(op) else "may be left out")
    return f"{arg.name}: {'; '.join(parts)}."


def layout(arg: Arg) -> str:
    text = "contiguous" if arg.layout == "contiguous" else "rows may be strided"
    what = "rows" if arg.layout == "row_strided" else "begins"
    return f"{text}, {what} on {arg.alignment}-byte boundaries" if arg.alignment > 1 else text


def made(op: Op, arg: Arg) -> str:
    source = dtype_source(op, arg)
    dtype = f", of {source}'s dtype" if source else f", {arg.dtypes[0]} where the library has that" if len(arg.dtypes) > 1 else ""
    return f"made when left out{dtype}"


def wrapped(text: str, indent: str, hanging: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, initial_indent=indent, subsequent_indent=indent + hanging, break_on_hyphens=False, break_long_words=False
    )


def section(title: str, entries: list[str]) -> list[str]:
    return ["", f"    {title}:", *(wrapped(entry, " " * 8, " " * 4) for entry in entries)] if entries else []


def described_parameters(op: Op) -> list[str]:
    room = "device memory of workspace_bytes, on a 256-byte boundary; allocated when left out" if op.workspace else "this op needs none"
    return [
        *(describe(op, parameter) for parameter in parameters(op)),
        "stream: a stream of torch, CuPy or numba, or its handle; the tensors' current one when left out.",
        "options: see LaunchOptions.",
        f"workspace: {room}.",
    ]


def raised(op: Op) -> list[str]:
    return [
        "InvalidArgumentError: outside the contract; names the argument, what was expected and what was found.",
        f"UnsupportedTargetError: the device's compute capability is below {op.min_compute_capability / 10:.1f}.",
        "Error: no compiler, no driver, or what else went wrong; see its status.",
    ]


def docstring(op: Op) -> str:
    outputs = ", ".join(arg.name for arg in returned(op))
    lines = [wrapped(op.summary.rstrip(".") + ".", "    ")]
    lines += section("Args", described_parameters(op))
    lines += section("Returns", [outputs + "."] if outputs else [])
    lines += section("Raises", raised(op))
    sources = ", ".join("kernel_templates/" + name for name in op.sources)
    lines += ["", wrapped(f"Contract: docs/kernel_contracts.md. Family {op.family}; source {sources}.", "    ")]
    return "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''").lstrip()


def short_way(op: Op) -> str:
    """When a call can be made by the op's launcher alone: tensors of quick types, outputs that are all given or all left out."""
    made = [arg.name for arg in allocatable(op)]
    conditions = [f"{detail} is None" for detail in DETAILS]
    conditions += [f"({made[0]} is None) is ({other} is None)" for other in made[1:]]
    conditions += [f"{arg.name}.__class__ in direct_types" for arg in op.args if arg.is_tensor]
    conditions += [f"is_plain({arg.name})" for arg in op.args if arg.may_be_lazy]
    conditions += [f"not in_host_memory({arg.name})" for arg in op.args if arg.host_memory]
    return "\n        and ".join(conditions)


def making(op: Op) -> str:
    made = [arg.name for arg in allocatable(op)]
    if not made:
        return ""
    inputs = ", ".join(arg.name for arg in required(op))
    return (
        f"if {made[0]} is None:\n                {', '.join(made)}{',' if len(made) == 1 else ''} = made.{op.name}({inputs})\n            "
    )


def function(op: Op) -> str:
    given = ", ".join(arg.name for arg in op.args)
    outputs = ", ".join(arg.name for arg in returned(op)) or "None"
    return f'''def {op.name}({signature(op)}) -> {returns(op)}:
    """{docstring(op)}
    """
    if (
        {short_way(op)}
    ):
        try:
            {making(op)}fast.{op.name}({given})
            return {outputs}
        except RuntimeError:
            pass  # A tensor of torch's without memory, or an output that cannot be made, of which the long way says what it is.
    return call("{op.name}", ({given},), stream, options, workspace)
'''


MODULE = '''"""Every op of the registry as a function. Written by generate/write_ops.py at build time."""

from __future__ import annotations

from typing import Any

from ._calls import direct_types, is_plain
from ._engine import call, fast
from ._launch_options import LaunchOptions
from ._outputs import made
from ._producers import in_host_memory

__all__ = {names}


{functions}'''

STUB = """from typing import Any

from ._launch_options import LaunchOptions

__all__ = {names}

{functions}"""


def names(ops: list[Op]) -> str:
    return "[\n" + "".join(f'    "{op.name}",\n' for op in ops) + "]"


def main() -> None:
    described, version, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    ops = [parse_op(op) for op in json.loads(described.read_text(encoding="utf-8"))]
    for op in ops:
        check_names(op)
    folder.mkdir(parents=True, exist_ok=True)
    module = MODULE.format(names=names(ops), functions="\n\n".join(function(op) for op in ops))
    (folder / "_ops.py").write_text(module, encoding="utf-8")
    stub = STUB.format(names=names(ops), functions="\n".join(f"def {op.name}({signature(op)}) -> {returns(op)}: ..." for op in ops))
    (folder / "_ops.pyi").write_text(stub + "\n", encoding="utf-8")
    (folder / "_version.py").write_text(f'__version__ = "{version}"\n', encoding="utf-8")


if __name__ == "__main__":
    main()
