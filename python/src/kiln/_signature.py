"""An op's Python signature: which of its arguments are positional, which may be left out, what it returns.

Inputs stand in the op's order. Those before the first optional one can be given by position, everything after it, and every output, by name
alone: so an op can get another optional argument without changing what a call means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._errors import ArgumentTypeError
from ._registry import Arg, Op, per_op
from ._shapes import allocatable

# What every op's function takes beside the op's arguments.
DETAILS = ("stream", "options", "workspace")


@dataclass(frozen=True)
class Parameter:
    arg: Arg
    positional: bool  # Also by name.
    required: bool  # Else None is its default.


@per_op
def parameters(op: Op) -> tuple[Parameter, ...]:
    """In the order of a signature: positional ones, then the inputs by name, then the outputs."""
    found: list[Parameter] = []
    positional = True
    for arg in op.inputs:
        positional = positional and not arg.optional
        found.append(Parameter(arg, positional, not arg.optional))
    for arg in op.outputs:
        found.append(Parameter(arg, False, not arg.optional and arg not in allocatable(op)))
    return tuple(found)


@per_op
def returned(op: Op) -> tuple[Arg, ...]:
    """The outputs that every call has. One is returned as it is, several as a tuple; without any, None is."""
    return tuple(arg for arg in op.outputs if not arg.optional)


@per_op
def places(op: Op) -> dict[str, int]:
    """Where each argument stands in the op's order."""
    return {arg.name: place for place, arg in enumerate(op.args)}


@per_op
def _positional(op: Op) -> tuple[str, ...]:
    return tuple(parameter.arg.name for parameter in parameters(op) if parameter.positional)


@per_op
def _needed(op: Op) -> tuple[str, ...]:
    return tuple(parameter.arg.name for parameter in parameters(op) if parameter.required)


def bind(op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The values in the op's order, None for what was left out. TypeError as a call of a function of this signature would give."""
    place_of = places(op)
    positional = _positional(op)
    if len(args) > len(positional):
        raise ArgumentTypeError(f"{op.name} takes {len(positional)} arguments by position ({', '.join(positional)}), and {len(args)} came")
    values: list[Any] = [None] * len(op.args)
    for name, value in zip(positional, args):
        values[place_of[name]] = value
    for name, value in kwargs.items():
        if name not in place_of:
            raise ArgumentTypeError(f"{op.name} has no argument {name!r}; it has {', '.join(place_of)}")
        if name in positional[: len(args)]:
            raise ArgumentTypeError(f"{op.name}: argument {name!r} came twice")
        values[place_of[name]] = value
    missing = [name for name in _needed(op) if values[place_of[name]] is None]
    if missing:
        raise ArgumentTypeError(f"{op.name}: {', '.join(missing)} must be given")
    return values


@per_op
def _places_returned(op: Op) -> tuple[int, ...]:
    return tuple(places(op)[arg.name] for arg in returned(op))


def results(op: Op, values: Sequence[Any]) -> Any:
    """What a call with these values returns."""
    outputs = [values[place] for place in _places_returned(op)]
    if not outputs:
        return None
    return outputs[0] if len(outputs) == 1 else tuple(outputs)
