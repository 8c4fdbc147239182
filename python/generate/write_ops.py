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
import types

SOURCES = pathlib.Path(__file__).resolve().parent.parent / "src" / "kiln"

# The package itself cannot be imported before this has run, its parts can.
package = types.ModuleType("kiln")
package.__path__ = [str(SOURCES)]
sys.modules["kiln"] = package

from kiln._describe import annotation, docstring  # noqa: E402
from kiln._registry import Op, parse_op  # noqa: E402
from kiln._shapes import allocatable, sources  # noqa: E402
from kiln._signature import DETAILS, parameters, returned  # noqa: E402

# What a function's own code calls.
HELPERS = ("direct_types", "is_plain", "in_host_memory", "make", "fast", "error", "broke_off", "call", "LaunchOptions")


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
        if not name.isidentifier() or keyword.iskeyword(name) or name in DETAILS + HELPERS:
            raise SystemExit(f"{op.name}: {name!r} cannot be a name in a Python signature beside {', '.join(DETAILS + HELPERS)}")


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")


def origin(op: Op) -> str:
    sources = ", ".join("kernel_templates/" + name for name in op.sources)
    return f"Contract: docs/kernel_contracts.md. Family {op.family}; source {sources}."


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


def short_way(op: Op) -> str:
    """When a call can be made by the op's launcher alone: nothing beside the arguments, and tensors of quick types."""
    conditions = [f"{detail} is None" for detail in DETAILS]
    conditions += [f"{arg.name}.__class__ in direct_types" for arg in op.args if arg.is_tensor]
    conditions += [f"is_plain({arg.name})" for arg in op.args if arg.may_be_lazy]
    conditions += [f"not in_host_memory({arg.name})" for arg in op.args if arg.host_memory]
    return "\n        and ".join(conditions)


def making(op: Op) -> str:
    made = [arg.name for arg in allocatable(op)]
    if not made:
        return ""
    missing = " or ".join(f"{name} is None" for name in made)
    given = f"({', '.join(made)}{',' * (len(made) == 1)})"
    inputs = "".join(f", {arg.name}" for arg in sources(op))
    return f"if {missing}:\n                {given} = make.{op.name}({given}{inputs})\n            "


def function(op: Op) -> str:
    given = ", ".join(arg.name for arg in op.args)
    outputs = ", ".join(arg.name for arg in returned(op)) or "None"
    return f'''def {op.name}({signature(op)}) -> {returns(op)}:
    """{escaped(docstring(op, origin(op)))}
    """
    if (
        {short_way(op)}
    ):
        try:
            {making(op)}fast.{op.name}({given})
            return {outputs}
        except (AttributeError, RuntimeError) as error:
            if not broke_off("{op.name}", ({given},), error):
                raise
    return call("{op.name}", ({given},), stream, options, workspace)
'''


MODULE = '''"""Every op of the registry as a function. Written by generate/write_ops.py at build time."""

from __future__ import annotations

from typing import Any

from ._engine import broke_off, call, fast
from ._launch_options import LaunchOptions
from ._outputs import make
from ._producers import direct_types, in_host_memory, is_plain

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
