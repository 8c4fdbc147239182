"""Outputs that a call of torch's tensors leaves out, made by torch the short way."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

from . import _registry, _shapes
from ._dtypes import DTYPES
from ._registry import Arg, Op


def required(op: Op) -> list[Arg]:
    """The tensors that shapes of left-out outputs follow from."""
    return [arg for arg in op.inputs if arg.is_tensor and not arg.optional]


def _shapes_of(op: Op, names: Sequence[str]) -> Callable[..., list[tuple[Any, ...]]]:
    """A function of the shapes of these inputs that gives those of the outputs. It remembers the last ones, but no symbolic ones."""

    def work_out(*shapes: Any) -> list[tuple[Any, ...]]:
        return list(_shapes.output_shapes(op, dict(zip(names, shapes))).values())

    remembered = lru_cache(maxsize=1024)(work_out)

    def shapes_of(*shapes: Any) -> list[tuple[Any, ...]]:
        try:
            return remembered(*shapes)
        except TypeError:  # A symbolic extent has no hash.
            return work_out(*shapes)

    return shapes_of


def maker(op: Op) -> Callable[..., list[Any]]:
    """A function of the required tensors, in the op's order, that makes the outputs that follow from them: of torch's tensors, which may be
    fake and have symbolic extents."""
    torch = sys.modules["torch"]
    inputs = required(op)
    names = [arg.name for arg in inputs]
    on_device = next(place for place, arg in enumerate(inputs) if not arg.host_memory)
    made: list[tuple[int | None, Any]] = []
    for arg in _shapes.allocatable(op):
        source = _shapes.dtype_source(op, arg)
        made.append((None, getattr(torch, DTYPES[arg.dtypes[0]].torch)) if source is None else (names.index(source), None))
    shapes_of = _shapes_of(op, names)

    def make(*tensors: Any) -> list[Any]:
        new_empty = tensors[on_device].new_empty
        shapes = shapes_of(*[tensor.shape for tensor in tensors])
        return [new_empty(shape, dtype=dtype if like is None else tensors[like].dtype) for shape, (like, dtype) in zip(shapes, made)]

    return make


class NotThisWay(RuntimeError):
    """The long way makes it, or says what is wrong."""


@cache
def attempt(op: Op) -> Callable[..., list[Any]]:
    """What `maker` gives for the op, made when it is first called. NotThisWay where it cannot be done."""
    make: Callable[..., list[Any]] | None = None

    def made(*tensors: Any) -> list[Any]:
        nonlocal make
        try:
            if make is None:
                make = maker(op)  # torch is there by now.
            return make(*tensors)
        except Exception as error:
            raise NotThisWay from error

    return made


class Made:
    """`attempt` for each built-in op, by its name, as the functions of _ops call it."""

    def __getattr__(self, name: str) -> Callable[..., list[Any]]:
        if name.startswith("__"):
            raise AttributeError(name)
        found = self.__dict__[name] = attempt(_registry.op(name))
        return found


made = Made()
