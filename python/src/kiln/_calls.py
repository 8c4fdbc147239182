"""A call of any producer's tensors: outputs that were left out are made, the stream found, the workspace allocated.

torch's tensors come here when something was left out or asked for; else the launcher of an op takes them as they are (see Launchers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from . import _native, _outputs, _short
from ._dtypes import NoDtype, dtype_name
from ._errors import ArgumentTypeError, Error, InvalidArgumentError, OutsideContract
from ._launch_options import DEFAULTS, LaunchOptions
from ._producers import (
    NoMemory,
    Producer,
    Torch,
    admit,
    direct_types,
    host_view,
    in_host_memory,
    on_host,
    producer_of,
    stream_handle,
)
from ._registry import Arg, Op
from ._shapes import allocatable, dtype_source, shape_sources, sources
from ._signature import places
from ._spec import TensorSpec


def _named(op: Op, what: str, error: Error) -> Error:
    return type(error)(f"{op.name}: {what}: {error}")


def _argument(arg: Arg) -> str:
    return f'argument "{arg.name}"'


class Call:
    """The values of one call, in the op's order, and where its tensors come from."""

    def __init__(self, op: Op, values: Sequence[Any]) -> None:
        self.op = op
        self.values = list(values)
        self.anchor: Any = None
        self.producer: Producer = NoMemory()
        for arg, value in zip(op.args, self.values):
            if arg.is_tensor and value is not None:
                producer = self._producer(arg, value)
                if self.anchor is None and not (arg.host_memory and in_host_memory(value)):
                    self.anchor, self.producer = value, producer

    def _producer(self, arg: Arg, value: Any) -> Producer:
        try:
            producer = producer_of(value)
        except ArgumentTypeError as error:
            raise _named(self.op, _argument(arg), error) from None
        if type(value) not in direct_types and isinstance(producer, Torch):
            admit(type(value), producer.torch)
        return producer

    def stream(self, given: Any) -> int:
        if given is not None:
            return stream_handle(given)
        return 0 if self.anchor is None else self.producer.current_stream(self.anchor)

    def complete(self, stream: int, memory: bool) -> None:
        """Makes the outputs that were left out and follow from the inputs; without memory, only as what they will be like."""
        missing = [arg for arg in allocatable(self.op) if self._value(arg) is None]
        if not missing or self.anchor is None or any(self._value(arg) is None for arg in sources(self.op)):
            return  # What was left out is named by the launch.
        layouts = self._layouts()
        for arg in missing:
            shape, _ = layouts[allocatable(self.op).index(arg)]
            source = dtype_source(self.op, arg)
            dtypes = arg.dtypes if source is None else (self._dtype(source),)
            if memory:
                made = self._empty(arg, shape, dtypes, stream)
            else:
                made = self._described(arg, shape, dtypes[0])
            self.values[places(self.op)[arg.name]] = made

    def _empty(self, arg: Arg, shape: Sequence[int], dtypes: Sequence[str], stream: int) -> Any:
        try:
            return self.producer.empty(shape, dtypes, self.anchor, stream)
        except InvalidArgumentError as error:
            near = next(arg for arg, value in zip(self.op.args, self.values) if value is self.anchor)
            if isinstance(error, ArgumentTypeError):
                raise _named(self.op, _argument(near), error) from None
            if on_host(self.anchor):
                host = InvalidArgumentError("expected a tensor on a CUDA device, found one in host memory")
                raise _named(self.op, _argument(near), host) from None
            raise _named(self.op, _argument(arg), error) from None

    def _described(self, arg: Arg, shape: Sequence[int], dtype: str) -> TensorSpec:
        try:
            return TensorSpec(tuple(shape), dtype, device=self.producer.device_of(self.anchor))
        except InvalidArgumentError as error:
            raise OutsideContract(f"{self.op.name}: {_argument(arg)}: {error}") from None

    def _value(self, arg: Arg) -> Any:
        return self.values[places(self.op)[arg.name]]

    def _layouts(self) -> tuple[_outputs.Layout, ...]:
        layouts: Any = _outputs.layouts(self.op)
        shapes = [self._shape(arg) for arg in shape_sources(self.op)]
        try:
            return layouts(*shapes)
        except TypeError:  # A tracer's extent has no hash.
            return layouts.__wrapped__(*shapes)

    def _shape(self, arg: Arg) -> tuple[int, ...]:
        value = self._value(arg)
        try:
            return producer_of(value).shape_of(value)
        except Error as error:
            raise _named(self.op, _argument(arg), error) from None

    def _dtype(self, name: str) -> str:
        value = self._value(self.op.arg(name))
        try:
            return dtype_name(producer_of(value).dtype_of(value))
        except ValueError as error:
            raise OutsideContract(f'{self.op.name}: argument "{name}": {error}') from None

    def natives(self, stream: int, memory: bool) -> list[Any]:
        """The values as the binding takes them; with memory, for a launch."""
        natives: list[Any] = []
        for arg, value in zip(self.op.args, self.values):
            if value is None or not arg.is_tensor:
                natives.append(value)
                continue
            seen = host_view(value) if arg.host_memory else value
            natives.append(self._native(_argument(arg), value, stream, memory, arg.is_mutated) if seen is value else seen)
        return natives

    def _native(self, what: str, value: Any, stream: int, memory: bool, written: bool) -> Any:
        try:
            producer = producer_of(value)
            if memory and not producer.has_memory:
                raise ArgumentTypeError("a TensorSpec has no memory: it describes a tensor, and a launch wants the tensor")
            if not producer.has_memory:
                dtype_name(value.dtype)
            return (producer.to_native if memory else producer.to_described)(value, stream, written)
        except NoDtype as error:
            raise OutsideContract(f"{self.op.name}: {what}: {error}") from None
        except Error as error:
            raise _named(self.op, what, error) from None
        except (BufferError, TypeError, ValueError, RuntimeError) as error:
            raise ArgumentTypeError(f"{self.op.name}: {what}: its memory cannot be had by DLPack: {error}") from error

    def room(self, given: Any, stream: int, count: Callable[..., int], natives: Sequence[Any]) -> Any:
        """The workspace of a launch as the binding takes it: what was given, else so many bytes of the producer's memory."""
        if given is not None:
            return self._native("workspace", given, stream, True, True)
        size = count(*natives)
        if size == 0:
            return None
        try:
            made = self.producer.empty((size,), ("u8",), self.anchor, stream)
        except InvalidArgumentError as error:
            raise _named(self.op, "workspace", error) from None
        return producer_of(made).to_native(made, stream)


def _launch(
    op: Op,
    values: Sequence[Any],
    stream: Any,
    options: LaunchOptions | None,
    workspace: Any,
    launch: Callable[..., None],
    count: Callable[..., int],
) -> list[Any]:
    """The values, with the outputs that were left out. `launch` and `count`: the binding's functions, of an op or a plan."""
    details = _details(op, options)

    def run(handle: int, room: Any, natives: Sequence[Any]) -> None:
        launch(handle, room, *details, *natives)

    made = list(values)
    if _short.launch_beside(op, made, stream, workspace, run):
        return made
    call = Call(op, made)
    handle = call.stream(stream)
    call.complete(handle, memory=True)
    natives = call.natives(handle, memory=True)
    run(handle, call.room(workspace, handle, count, natives), natives)
    return call.values


def launch(
    engine: Any, op: Op, values: Sequence[Any], stream: Any = None, options: LaunchOptions | None = None, workspace: Any = None
) -> list[Any]:
    go = partial(_native.function("op_launch"), engine, op.name)
    count = partial(_native.function("op_workspace_bytes"), engine, op.name) if op.workspace else _nothing
    return _launch(op, values, stream, options, workspace, go, count)


def launch_plan(plan: Any, op: Op, values: Sequence[Any], stream: Any, options: LaunchOptions | None, workspace: Any) -> list[Any]:
    go, size = _native.function("plan_launch"), _native.function("plan_workspace_bytes")
    return _launch(op, values, stream, options, workspace, partial(go, plan), lambda *_: size(plan))


def _nothing(*_: Any) -> int:
    return 0


def ask(function: str, engine: Any, op: Op, values: Sequence[Any]) -> Any:
    """What is asked of a call that is not launched: its tensors' memory is not looked at."""
    return _native.call(function, engine, op.name, *described(op, values))


def described(op: Op, values: Sequence[Any]) -> list[Any]:
    call = Call(op, values)
    stream = call.stream(None)
    call.complete(stream, memory=False)
    return call.natives(stream, memory=False)


def _details(op: Op, options: LaunchOptions | None) -> tuple[int, ...]:
    if options is None:
        return DEFAULTS
    if not isinstance(options, LaunchOptions):
        raise ArgumentTypeError(f"{op.name}: options must be a kiln.LaunchOptions, found a {type(options).__name__}")
    return options.native
