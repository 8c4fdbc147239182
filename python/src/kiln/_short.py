"""The short way of a call by an op's name or of a plan, as the functions of _ops have it written out, and that of a call with more to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _outputs
from ._errors import InvalidArgumentError, NotMade
from ._producers import NO_TENSORS, direct_types, in_host_memory, is_plain, quick_producer_of, stream_handle
from ._registry import Op, per_op
from ._shapes import allocatable, required, sources
from ._signature import places


class _Form:
    """The short way of an op's calls, which takes values as they are."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.tensors = [place for place, arg in enumerate(op.args) if arg.is_tensor]
        self.lazy = [place for place, arg in enumerate(op.args) if arg.may_be_lazy]
        self.host = [place for place, arg in enumerate(op.args) if arg.host_memory]
        self.outputs = [places(op)[arg.name] for arg in allocatable(op)]
        self.sources = [places(op)[arg.name] for arg in sources(op)]
        self.near = next((places(op)[arg.name] for arg in required(op) if not arg.host_memory), None)

    def takes(self, values: Sequence[Any]) -> bool:
        for place in self.tensors:
            if values[place].__class__ not in direct_types:
                return False
        for place in self.lazy:
            if not is_plain(values[place]):
                return False
        for place in self.host:
            if in_host_memory(values[place]):
                return False
        return True

    def misses(self, values: Sequence[Any]) -> bool:
        for place in self.outputs:
            if values[place] is None:
                return True
        return False

    def complete(self, values: list[Any]) -> None:
        """Makes the outputs that were left out."""
        if self.misses(values):
            given = [values[place] for place in self.outputs]
            for place, made in zip(self.outputs, _outputs.maker(self.op)(given, *[values[place] for place in self.sources])):
                values[place] = made


@per_op
def _form(op: Op) -> _Form:
    return _Form(op)


def broke_off(op: Op, values: Sequence[Any], error: Exception) -> bool:
    """Whether the short way cannot have launched, because of a tensor of torch's without memory, or of none where one belongs: the long way
    says what it is. What else was raised may have come after the launch, such as from a signal's handler, and is no reason for another."""
    if isinstance(error, NotMade) or any(values[place].__class__ in NO_TENSORS for place in _form(op).sources):
        return True
    return any(_lacks_memory(value) for value in values)


def _lacks_memory(value: Any) -> bool:
    producer = quick_producer_of(value)
    if producer is None:
        return False
    try:
        producer.to_native(value, 0)
    except InvalidArgumentError:
        return True
    return False


def launch(op: Op, values: list[Any], launcher: Callable[..., None]) -> bool:
    """Launches as the functions of _ops do where they take the short way, and puts the outputs that were left out among the values. False where
    the call must go the long way."""
    form = _form(op)
    if not form.takes(values):
        return False
    try:
        form.complete(values)
        launcher(*values)
    except (AttributeError, RuntimeError) as error:
        if not broke_off(op, values, error):
            raise
        return False
    return True


def launch_beside(op: Op, values: list[Any], stream: Any, workspace: Any, go: Callable[..., None]) -> bool:
    """What `launch` does, for calls that say more than their arguments: `go` takes the stream's handle, the workspace, True where torch is to
    make what is needed, and the values. False where it cannot, such as where memory is wanted for a stream that torch's allocator is not at."""
    form = _form(op)
    near = None if form.near is None else values[form.near]
    producer = quick_producer_of(near)
    if producer is None or not form.takes(values):
        return False
    if workspace is not None and (quick_producer_of(workspace) is None or not is_plain(workspace)):
        return False
    try:
        current = producer.current_stream(near)
        handle = current if stream is None else stream_handle(stream)
        allocates = op.workspace and workspace is None
        if handle != current and (allocates or form.misses(values)):
            return False
        form.complete(values)
        go(handle, allocates or workspace, values)
    except (AttributeError, RuntimeError) as error:
        if not broke_off(op, [*values, workspace], error):
            raise
        return False
    return True
