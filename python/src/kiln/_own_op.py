"""Ops of the caller's own, described as kiln.h describes them.

What depends on a call's shapes is an expression over the op's symbols: whole numbers, + - * / %, parentheses, min(a, b), max(a, b),
ceil_div(a, b).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ._errors import InvalidArgumentError
from ._registry import Access, Arg, Op, parse_dim
from ._signature import DETAILS

ScalarType = Literal["i32", "i64", "f32", "bool"]

_TYPES = {"i32": 0, "i64": 1, "f32": 2, "bool": 3}
_ACCESS = {"read": 0, "write": 1, "read_write": 2}
_CONSTANT, _OPTIONAL, _ROW_STRIDED, _HOST_MEMORY = 1, 2, 4, 8
_DATA, _STRIDE, _SCALAR, _EXPRESSION, _WORKSPACE, _CONSTANTS_READY = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class TensorArg:
    """A tensor. dtypes: "bf16, f32". shape: axes with commas, each an extent, a symbol, an expression over others' symbols or, as the first,
    "m...": any number of axes whose product is m. constant: a weight or table, which may be read before the PDL wait. row_strided: the
    innermost stride is 1, the others are free; else it is contiguous. alignment: bytes, of the data and of each row."""

    name: str
    dtypes: str
    shape: str
    access: Access = "read"
    constant: bool = False
    optional: bool = False
    row_strided: bool = False
    host_memory: bool = False
    alignment: int = 16
    summary: str = ""


@dataclass(frozen=True)
class ScalarArg:
    """A number."""

    name: str
    type: ScalarType
    optional: bool = False
    summary: str = ""


OwnArg = TensorArg | ScalarArg


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel's signature. A plain string in its place is an argument's name: its pointer, or its value."""

    source: int
    name: str | None = None
    axis: int = 0
    type: ScalarType = "i64"

    @staticmethod
    def stride(arg: str, axis: int, type: Literal["i32", "i64"] = "i64") -> Param:
        """A tensor's stride along an axis, in elements."""
        return Param(_STRIDE, arg, axis, type)

    @staticmethod
    def expression(text: str, type: Literal["i32", "i64"] = "i64") -> Param:
        """A symbol, or an expression over symbols."""
        return Param(_EXPRESSION, text, 0, type)

    @staticmethod
    def workspace() -> Param:
        """The workspace's pointer."""
        return Param(_WORKSPACE)

    @staticmethod
    def constants_ready() -> Param:
        """bool: constant arguments may be read before the PDL wait."""
        return Param(_CONSTANTS_READY)


@dataclass(frozen=True)
class Kernel:
    """One kernel; an op's kernels are launched in order on one stream. source: which of the op's sources. instantiation: "axpy<256>", which
    with pdl may hold {PDL}: true or false. grid, block and cluster: up to three expressions."""

    name: str
    source: str
    instantiation: str
    params: Sequence[Param | str]
    grid: Sequence[str | int]
    block: Sequence[str | int]
    cluster: Sequence[str | int] = field(default=())
    dynamic_shared_bytes: str | int | None = None
    cooperative: bool = False


def _arg(arg: OwnArg) -> dict[str, Any]:
    if isinstance(arg, ScalarArg):
        return {"name": arg.name, "summary": arg.summary, "scalar_type": _TYPES[arg.type], "flags": _OPTIONAL * arg.optional}
    flags = _CONSTANT * arg.constant + _OPTIONAL * arg.optional + _ROW_STRIDED * arg.row_strided + _HOST_MEMORY * arg.host_memory
    return {
        "name": arg.name,
        "summary": arg.summary,
        "dtypes": arg.dtypes,
        "shape": arg.shape,
        "access": _ACCESS[arg.access],
        "flags": flags,
        "alignment": arg.alignment,
    }


def _param(param: Param | str, args: dict[str, OwnArg]) -> dict[str, Any]:
    if isinstance(param, str):
        if param not in args:
            raise InvalidArgumentError(
                f'a parameter is called "{param}", which is no argument; there are {", ".join(args)}. See Param for the rest'
            )
        return {"source": _SCALAR if isinstance(args[param], ScalarArg) else _DATA, "name": param}
    return {"source": param.source, "name": param.name, "axis": param.axis, "type": _TYPES[param.type]}


def _kernel(kernel: Kernel, args: dict[str, OwnArg]) -> dict[str, Any]:
    shared = kernel.dynamic_shared_bytes
    return {
        "name": kernel.name,
        "source": kernel.source,
        "instantiation": kernel.instantiation,
        "params": [_param(param, args) for param in kernel.params],
        "grid": [str(extent) for extent in kernel.grid],
        "block": [str(extent) for extent in kernel.block],
        "cluster": [str(extent) for extent in kernel.cluster],
        "dynamic_shared_bytes": None if shared is None else str(shared),
        "cooperative": int(kernel.cooperative),
    }


def check_parts(name: Any, args: Sequence[OwnArg], kernels: Sequence[Kernel], options: Sequence[str]) -> None:
    """InvalidArgumentError for what is of the wrong kind, which the library would not get to see."""

    def want(fits: bool, what: str, found: Any) -> None:
        if not fits:
            raise InvalidArgumentError(f"register_op: {name}: {what}, found {found!r}")

    want(isinstance(name, str) and "\0" not in name, "an op's name is a str", name)
    want(not isinstance(options, str), "options are a list of str", options)
    for arg in args:
        want(isinstance(arg, (TensorArg, ScalarArg)), "args are TensorArg or ScalarArg", arg)
        want(arg.name not in DETAILS, "an argument is called neither stream, options nor workspace", arg.name)
        if isinstance(arg, ScalarArg):
            want(arg.type in _TYPES, f"a scalar's type is one of {', '.join(_TYPES)}", arg.type)
        else:
            want(isinstance(arg.shape, str) and isinstance(arg.dtypes, str), "shape and dtypes are a str each", (arg.shape, arg.dtypes))
            want(arg.access in _ACCESS, f"access is one of {', '.join(_ACCESS)}", arg.access)
    for kernel in kernels:
        want(isinstance(kernel, Kernel), "kernels are Kernel", kernel)
        for extents in (kernel.grid, kernel.block, kernel.cluster):
            want(not isinstance(extents, str) and len(extents) <= 3, "grid, block and cluster are lists of at most three", extents)
        for param in kernel.params:
            want(isinstance(param, (Param, str)), "params are Param or arguments' names", param)


def _axes(shape: str) -> tuple[int | str, ...]:
    """Split at the commas that are in no parentheses."""
    axes, depth, start = [], 0, 0
    for place, character in enumerate(shape + ","):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            axes.append(shape[start:place].strip())
            start = place + 1
    return tuple(int(axis) if axis.isdigit() else axis for axis in axes if axis)


def _metadata(arg: OwnArg) -> Arg:
    if isinstance(arg, ScalarArg):
        return Arg(arg.name, arg.summary, arg.optional, scalar=arg.type)
    return Arg(
        arg.name,
        arg.summary,
        arg.optional,
        dtypes=tuple(dtype.strip() for dtype in arg.dtypes.split(",")),
        shape=tuple(parse_dim(axis) for axis in _axes(arg.shape)),
        layout="row_strided" if arg.row_strided else "contiguous",
        alignment=arg.alignment,
        access=arg.access,
        constant=arg.constant,
        host_memory=arg.host_memory,
    )


def describe(
    name: str,
    args: Sequence[OwnArg],
    kernels: Sequence[Kernel],
    sources: Mapping[str, str | None],
    source_directory: str | None,
    summary: str,
    family: str,
    options: Sequence[str],
    workspace_bytes: str | None,
    min_compute_capability: int,
    pdl: bool,
) -> tuple[dict[str, Any], Op]:
    """What the binding registers, and the op as this package describes ops."""
    by_name = {arg.name: arg for arg in args}
    described = {
        "name": name,
        "family": family,
        "summary": summary,
        "args": [_arg(arg) for arg in args],
        "kernels": [_kernel(kernel, by_name) for kernel in kernels],
        "sources": dict(sources),
        "source_directory": source_directory,
        "options": list(options),
        "workspace_bytes": workspace_bytes,
        "min_compute_capability": min_compute_capability,
        "pdl": 1 if pdl else 0,
    }
    metadata = tuple(_metadata(arg) for arg in args)
    op = Op(name, family, summary, metadata, min_compute_capability, (), tuple(sources), workspace_bytes is not None)
    return described, op
