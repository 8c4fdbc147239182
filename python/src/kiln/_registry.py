"""What the registry says of each op, as Python data.

`ops.json` is what `kiln ops --json` printed when the package was built. Nothing here knows an op by name: functions, stubs and the layers for
array libraries are made from these descriptions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Literal

Access = Literal["read", "write", "read_write"]


@dataclass(frozen=True)
class Dim:
    """One axis of a tensor's shape.

    fixed: always `value`. symbol: an extent that every use in the op must agree on. leading: any number of axes, also none, whose product
    is the symbol. derived: `text` is an expression over symbols, which other axes give.
    """

    kind: Literal["fixed", "symbol", "leading", "derived"]
    text: str
    value: int = 0

    @property
    def symbol(self) -> str:
        """The name of a symbol or of leading axes."""
        return self.text.removesuffix("...")


@dataclass(frozen=True)
class Arg:
    """One argument: a tensor, or where `scalar` is not None a number ("i32", "i64", "f32" or "bool")."""

    name: str
    summary: str
    optional: bool
    scalar: str | None = None
    dtypes: tuple[str, ...] = ()
    shape: tuple[Dim, ...] = ()
    layout: Literal["contiguous", "row_strided"] = "contiguous"
    alignment: int = 16
    access: Access = "read"
    constant: bool = False
    host_memory: bool = False

    @property
    def is_tensor(self) -> bool:
        return self.scalar is None

    @property
    def may_be_lazy(self) -> bool:
        """Whether torch has views of its dtypes that are conjugated or negated only when they are read: complex ones and their parts."""
        return "complex64" in self.dtypes or "f32" in self.dtypes

    @property
    def is_output(self) -> bool:
        """Written, and never read."""
        return self.is_tensor and self.access == "write"

    @property
    def is_mutated(self) -> bool:
        """Written, whether or not it is read too."""
        return self.is_tensor and self.access != "read"


@dataclass(frozen=True, eq=False)
class Op:
    """One op. `args` stand in the order in which a launch takes them. Equal to itself alone, so that it is quickly found in what calls remember of
    it."""

    name: str
    family: str
    summary: str
    args: tuple[Arg, ...]
    min_compute_capability: int = 90
    archs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    workspace: bool = False

    @property
    def outputs(self) -> tuple[Arg, ...]:
        return tuple(arg for arg in self.args if arg.is_output)

    @property
    def inputs(self) -> tuple[Arg, ...]:
        """All but the outputs; some may be changed in place."""
        return tuple(arg for arg in self.args if not arg.is_output)

    @property
    def mutated(self) -> tuple[Arg, ...]:
        return tuple(arg for arg in self.args if arg.is_mutated)

    def arg(self, name: str) -> Arg:
        for arg in self.args:
            if arg.name == name:
                return arg
        raise KeyError(f"{self.name} has no argument {name!r}; it has {', '.join(a.name for a in self.args)}")


# For what is worked out of an op once: the last that were asked about are remembered, since a program may go on registering ops.
per_op = lru_cache(maxsize=1024)


def parse_dim(axis: int | str) -> Dim:
    """As `kiln ops --json` writes it: 512, "m", "m...", "4*k"."""
    if isinstance(axis, int):
        return Dim("fixed", str(axis), axis)
    if axis.endswith("...") and axis[:-3].isidentifier():
        return Dim("leading", axis)
    return Dim("symbol" if axis.isidentifier() else "derived", axis)


def parse_arg(described: Mapping[str, Any]) -> Arg:
    if "scalar" in described:
        return Arg(described["name"], described["summary"], described["optional"], scalar=described["scalar"])
    return Arg(
        described["name"],
        described["summary"],
        described["optional"],
        dtypes=tuple(described["dtypes"]),
        shape=tuple(parse_dim(axis) for axis in described["shape"]),
        layout=described["layout"],
        alignment=described["alignment"],
        access=described["access"],
        constant=described["constant"],
        host_memory=described["host_memory"],
    )


def parse_op(described: Mapping[str, Any]) -> Op:
    return Op(
        described["name"],
        described["family"],
        described["summary"],
        tuple(parse_arg(arg) for arg in described["args"]),
        described["min_compute_capability"],
        tuple(described["archs"]),
        tuple(described["sources"]),
        described["workspace"],
    )


@cache
def ops() -> list[Op]:
    """The built-in ops, in the registry's order."""
    text = resources.files(__package__).joinpath("ops.json").read_text(encoding="utf-8")
    return [parse_op(described) for described in json.loads(text)]


@cache
def op(name: str) -> Op:
    for candidate in ops():
        if candidate.name == name:
            return candidate
    raise KeyError(f"there is no built-in op {name!r}")
