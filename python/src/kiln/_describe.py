"""What an op's function says of itself."""

from __future__ import annotations

import inspect
import keyword
import textwrap
from typing import Any

from ._registry import Arg, Op
from ._shapes import allocatable, dtype_source
from ._signature import DETAILS, Parameter, parameters, returned

_SCALARS = {"i32": "int", "i64": "int", "f32": "float", "bool": "bool"}
_WIDTH = 140


def annotation(parameter: Parameter) -> str:
    kind = "Any" if parameter.arg.is_tensor else _SCALARS[parameter.arg.scalar or ""]
    return kind if parameter.required or kind == "Any" else f"{kind} | None"


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
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent + hanging, break_on_hyphens=False, break_long_words=False
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


def docstring(op: Op, origin: str) -> str:
    """Of the op's function; origin: where what is said comes from."""
    outputs = ", ".join(arg.name for arg in returned(op))
    lines = [wrapped(op.summary.rstrip(".") + ".", "    ")]
    lines += section("Args", described_parameters(op))
    lines += section("Returns", [outputs + "."] if outputs else [])
    lines += section("Raises", raised(op))
    lines += ["", wrapped(origin, "    ")]
    return "\n".join(lines).lstrip()


def signature(op: Op) -> inspect.Signature:
    """Of the op's function, as help() shows it."""
    shown = [
        inspect.Parameter(
            parameter.arg.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD if parameter.positional else inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if parameter.required else None,
            annotation=annotation(parameter),
        )
        for parameter in parameters(op)
    ]
    shown += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in DETAILS]
    return inspect.Signature(shown)


def describe_function(function: Any, op: Op) -> None:
    """For one of an op of the caller's own."""
    sources = ", ".join(op.sources)
    function.__doc__ = inspect.cleandoc("    " + docstring(op, f"Family {op.family}; source {sources}."))
    if all(arg.name.isidentifier() and not keyword.iskeyword(arg.name) for arg in op.args):  # The library takes others too.
        function.__signature__ = signature(op)
