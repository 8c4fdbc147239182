"""A call of any producer's tensors: outputs that were left out are made, the stream found, the workspace allocated.

torch's tensors come here when something was left out or asked for; else the launcher of an op takes them as they are (see Launchers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import _native
from ._dtypes import NoDtype, dtype_name
from ._errors import ArgumentTypeError, Error, InvalidArgumentError
from ._launch_options import DEFAULTS, LaunchOptions
from ._producers import NoMemory, Producer, Torch, host_view, in_host_memory, on_host, producer_of, stream_handle
from ._registry import Arg, Op
from ._shapes import allocatable, dtype_source, output_shapes
from ._spec import TensorSpec

# Types whose values an op's launcher takes as they are: they say by the C exchange of DLPack what memory and which current stream they have.
# torch's are put in when they first come.
direct_types: set[type] = {type(None), bool, int, float}


def admit(cls: type, torch: Any) -> None:
    """Lets a type of torch's take the short way, where it has memory of its own and is no tracer's."""
    if hasattr(cls, "__dlpack_c_exchange_api__") and cls.__torch_dispatch__ is torch.Tensor.__torch_dispatch__:  # type: ignore[attr-defined]
        direct_types.add(cls)


def is_plain(tensor: Any) -> bool:
    """False for a view of torch's that is conjugated or negated only when it is read, which no DLPack can say. Asked of what may
    be lazy alone."""
    if tensor is None:
        return True
    try:
        return not (tensor.is_neg() or tensor.is_conj())
    except AttributeError:
        return True


def _named(op: Op, what: str, error: Error) -> Error:
    return type(error)(f"{op.name}: {what}: {error}")


def _argument(arg: Arg) -> str:
    return f'argument "{arg.name}"'


class OutsideContract(InvalidArgumentError):
    """What is asked of a call has an answer nonetheless."""


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
        if isinstance(producer, Torch):
            admit(type(value), producer.torch)
        return producer

    def stream(self, given: Any) -> int:
        if given is not None:
            return stream_handle(given)
        return 0 if self.anchor is None else self.producer.current_stream(self.producer.device_of(self.anchor))

    def complete(self, stream: int, memory: bool) -> None:
        """Makes the outputs that were left out and follow from the inputs; without memory, only as what they will be like."""
        missing = [arg for arg in allocatable(self.op) if self._value(arg) is None]
        if not missing or self.anchor is None:
            return
        shapes = self._output_shapes()
        for arg in missing:
            source = dtype_source(self.op, arg)
            dtypes = arg.dtypes if source is None else (self._dtype(source),)
            if memory:
                made = self._empty(arg, shapes[arg.name], dtypes, stream)
            else:
                made = TensorSpec(shapes[arg.name], dtypes[0], device=self.producer.device_of(self.anchor))
            self.values[self.op.args.index(arg)] = made

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

    def _value(self, arg: Arg) -> Any:
        return self.values[self.op.args.index(arg)]

    def _output_shapes(self) -> dict[str, tuple[Any, ...]]:
        tensors = {arg.name: value for arg, value in zip(self.op.args, self.values) if arg.is_tensor and value is not None}
        try:
            return output_shapes(self.op, {name: producer_of(value).shape_of(value) for name, value in tensors.items()})
        except (ValueError, KeyError) as error:
            # The launch says it better where it can; a missing input is named by the signature.
            raise OutsideContract(f"{self.op.name}: {error}") from None

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

    def room(self, given: Any, stream: int, count: Callable[[], int]) -> Any:
        """The workspace of a launch as the binding takes it: what was given, else so many bytes."""
        if given is not None:
            return self._native("workspace", given, stream, True, True)
        return self.workspace(stream, count())

    def workspace(self, stream: int, count: int) -> Any:
        """So many bytes for a launch on the stream, of the producer's memory; None when none are needed."""
        if count == 0:
            return None
        try:
            made = self.producer.empty((count,), ("u8",), self.anchor, stream)
        except InvalidArgumentError as error:
            raise _named(self.op, "workspace", error) from None
        return producer_of(made).to_native(made, stream)


def launch(
    engine: Any, op: Op, values: Sequence[Any], stream: Any = None, options: LaunchOptions | None = None, workspace: Any = None
) -> Call:
    details = _details(op, options)
    call = Call(op, values)
    handle = call.stream(stream)
    call.complete(handle, memory=True)
    natives = call.natives(handle, memory=True)
    room = call.room(workspace, handle, lambda: _native.call("op_workspace_bytes", engine, op.name, *natives) if op.workspace else 0)
    _native.call("op_launch", engine, op.name, handle, room, *details, *natives)
    return call


def launch_plan(plan: Any, op: Op, values: Sequence[Any], stream: Any, options: LaunchOptions | None, workspace: Any) -> Call:
    details = _details(op, options)
    call = Call(op, values)
    handle = call.stream(stream)
    call.complete(handle, memory=True)
    natives = call.natives(handle, memory=True)
    room = call.room(workspace, handle, lambda: _native.call("plan_workspace_bytes", plan))
    _native.call("plan_launch", plan, handle, room, *details, *natives)
    return call


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
    return options.to_native()
