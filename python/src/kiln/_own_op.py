"""Ops of the caller's own, described as kiln.h describes them.

What depends on a call's shapes is an expression over the op's symbols: whole numbers, + - * / %, parentheses, min(a, b), max(a, b),
ceil_div(a, b).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ._registry import Access, Arg, Op, parse_dim

ScalarType = Literal["i32", "i64", "f32", "bool"]

TYPES = {"i32": 0, "i64": 1, "f32": 2, "bool": 3}
ACCESS = {"read": 0, "write": 1, "read_write": 2}
_CONSTANT, _OPTIONAL, _ROW_STRIDED, _HOST_MEMORY = 1, 2, 4, 8
PARAM_SOURCES = _DATA, _STRIDE, _SCALAR, _EXPRESSION, _WORKSPACE, _CONSTANTS_READY = 1, 2, 3, 4, 5, 6


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


@dataclass(frozen=True)
class OwnOp:
    """What register_op is given."""

    name: str
    args: Sequence[OwnArg]
    kernels: Sequence[Kernel]
    sources: Mapping[str, str | None]
    source_directory: str | None
    summary: str
    family: str
    options: Sequence[str]
    workspace_bytes: str | int | None
    min_compute_capability: int
    pdl: bool


def _arg(arg: OwnArg) -> dict[str, Any]:
    if isinstance(arg, ScalarArg):
        return {"name": arg.name, "summary": arg.summary, "scalar_type": TYPES[arg.type], "flags": _OPTIONAL * arg.optional}
    flags = _CONSTANT * arg.constant + _OPTIONAL * arg.optional + _ROW_STRIDED * arg.row_strided + _HOST_MEMORY * arg.host_memory
    return {
        "name": arg.name,
        "summary": arg.summary,
        "dtypes": arg.dtypes,
        "shape": arg.shape,
        "access": ACCESS[arg.access],
        "flags": flags,
        "alignment": arg.alignment,
    }


def _param(param: Param | str, args: dict[str, OwnArg]) -> dict[str, Any]:
    if isinstance(param, str):
        return {"source": _SCALAR if isinstance(args[param], ScalarArg) else _DATA, "name": param}
    return {"source": param.source, "name": param.name, "axis": param.axis, "type": TYPES[param.type]}


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


def _axes(shape: str) -> tuple[int | str, ...]:
    """Split at the commas that are in no parentheses."""
    axes, depth, start = [], 0, 0
    for place, character in enumerate(shape + ","):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            axes.append(shape[start:place].strip())
            start = place + 1
    return tuple(int(axis) if axis.isascii() and axis.isdigit() else axis for axis in axes if axis)


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


def describe(own: OwnOp) -> tuple[dict[str, Any], Op]:
    """What the binding registers, and the op as this package describes ops."""
    by_name = {arg.name: arg for arg in own.args}
    described = {
        "name": own.name,
        "family": own.family,
        "summary": own.summary,
        "args": [_arg(arg) for arg in own.args],
        "kernels": [_kernel(kernel, by_name) for kernel in own.kernels],
        "sources": dict(own.sources),
        "source_directory": own.source_directory,
        "options": list(own.options),
        "workspace_bytes": None if own.workspace_bytes is None else str(own.workspace_bytes),
        "min_compute_capability": own.min_compute_capability,
        "pdl": 1 if own.pdl else 0,
    }
    return described, Op(
        own.name,
        own.family,
        own.summary,
        tuple(_metadata(arg) for arg in own.args),
        own.min_compute_capability,
        (),
        tuple(own.sources),
        own.workspace_bytes is not None,
    )
