"""The short way of a call by an op's name, as the functions of _ops have it written out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from . import _outputs, _shapes
from ._calls import direct_types, is_plain
from ._producers import in_host_memory
from ._registry import Op


class _Form:
    """An op's arguments by what is to be known of them, as their places."""

    def __init__(self, op: Op) -> None:
        required = {arg.name for arg in _outputs.required(op)}
        makes = {arg.name for arg in _shapes.allocatable(op)}
        at = list(enumerate(op.args))
        self.tensors = [place for place, arg in at if arg.is_tensor]
        self.lazy = [place for place, arg in at if arg.may_be_lazy]
        self.host = [place for place, arg in at if arg.host_memory]
        self.required = [place for place, arg in at if arg.name in required]
        self.makes = [place for place, arg in at if arg.name in makes]
        self.make = _outputs.attempt(op)


_form = cache(_Form)


def complete(op: Op, values: list[Any]) -> list[Any] | None:
    """The values for the op's launcher, with the outputs that were left out. None: the long way is to be taken."""
    form = _form(op)
    missing = [place for place in form.makes if values[place] is None]
    if (
        len(missing) not in (0, len(form.makes))
        or any(values[place].__class__ not in direct_types for place in form.tensors)
        or not all(is_plain(values[place]) for place in form.lazy)
        or any(in_host_memory(values[place]) for place in form.host)
    ):
        return None
    if missing:
        values = list(values)
        try:
            made = form.make(*[values[place] for place in form.required])
        except _outputs.NotThisWay:
            return None
        for place, tensor in zip(missing, made):
            values[place] = tensor
    return values


def launch(launchers: Any, op: Op, values: Sequence[Any]) -> Sequence[Any] | None:
    """What was launched, if it could be."""
    given = None if op.name.startswith("__") else complete(op, list(values))  # Which no attribute is made for.
    if given is None:
        return None
    try:
        getattr(launchers, op.name)(*given)
    except RuntimeError:
        return None  # A tensor of torch's without memory, of which the long way says what it is.
    return given
