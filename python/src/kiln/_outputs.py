"""The outputs that a call leaves out: what they are like, and the quick way to have torch make them.

Only shapes and strides are remembered, by the shapes of the required inputs, and they follow from nothing else. Types, the device and the
stream are looked at in every call, so what is remembered is never out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from . import _registry, _shapes
from ._dtypes import DTYPES
from ._errors import NotMade, OutsideContract
from ._registry import Op, per_op
from ._spec import contiguous_strides

SHAPES = 1024  # So many sets of shapes are remembered for an op: the last that came.

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # Extents, strides.


@per_op
def layouts(op: Op) -> Callable[..., tuple[Layout, ...]]:
    """A function of the shapes of `_shapes.shape_sources` that gives the layouts of `_shapes.allocatable`."""
    names = [arg.name for arg in _shapes.shape_sources(op)]

    @lru_cache(maxsize=SHAPES)
    def worked_out(*shapes: Sequence[int]) -> tuple[Layout, ...]:
        try:
            found = _shapes.output_shapes(op, dict(zip(names, shapes)))
        except ValueError as error:
            raise OutsideContract(f"{op.name}: {error}") from None
        return tuple((shape, contiguous_strides(shape)) for shape in found.values())

    return worked_out


@per_op
def maker(op: Op) -> Callable[..., Sequence[Any]]:
    """A function of the outputs of `_shapes.allocatable`, one of them None at least, and of the tensors of `_shapes.sources`. It gives the
    outputs, and has torch make those that are None, for its current stream. AttributeError for what is no tensor; NotMade where torch, or a
    mode of it that is active, makes none with memory of its own."""
    torch, sources, outputs = sys.modules.get("torch"), _shapes.sources(op), _shapes.allocatable(op)
    near = next((place for place, arg in enumerate(sources) if not arg.host_memory), None)
    if torch is None or near is None:
        raise NotMade(f"{op.name}: no tensor of torch's whose device an output would be on")
    names: list[str | None] = [arg.name for arg in sources]
    # A type, or the source that has it.
    dtypes = [torch_dtype(torch, arg.dtypes) if _shapes.dtype_source(op, arg) is None else None for arg in outputs]
    followed = [names.index(_shapes.dtype_source(op, arg)) if dtype is None else 0 for arg, dtype in zip(outputs, dtypes)]
    layouts_of, shapes = layouts(op), len(_shapes.shape_sources(op))
    empty, plain = torch.empty_strided, torch.Tensor  # torch.empty takes longer to read its arguments.

    def new(layout: Layout, dtype: Any, device: Any) -> Any:
        made = empty(*layout, dtype=dtype, device=device)
        if made.__class__ is not plain:
            raise NotMade(f"{op.name}: torch made a {type(made).__name__}")
        return made

    def make(given: Sequence[Any], *tensors: Any) -> Sequence[Any]:
        device = tensors[near].device
        found = layouts_of(*[tensor.shape for tensor in tensors[:shapes]])
        return [
            new(layout, dtype or tensors[source].dtype, device) if output is None else output
            for output, layout, dtype, source in zip(given, found, dtypes, followed)
        ]

    def make_only(given: Sequence[Any], tensor: Any) -> Sequence[Any]:
        return (new(layouts_of(tensor.shape)[0], dtypes[0] or tensor.dtype, tensor.device),)

    return make_only if len(outputs) == len(sources) == shapes == 1 else make


def torch_dtype(torch: Any, dtypes: Sequence[str]) -> Any:
    """The first of these that torch has."""
    return next(getattr(torch, DTYPES[name].torch) for name in dtypes if hasattr(torch, DTYPES[name].torch))


class Makers:
    """`maker` of each built-in op, as an attribute."""

    def __getattr__(self, name: str) -> Callable[..., Sequence[Any]]:
        if name.startswith("__"):
            raise AttributeError(name)
        made = self.__dict__[name] = maker(_registry.op(name))
        return made


make = Makers()
