"""A call of any producer's tensors: outputs that were left out are made, the stream found, the workspace allocated.

torch's tensors come here when something was left out or asked for; else the launcher of an op takes them as they are (see Launchers).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import _native
from ._dtypes import dtype_name
from ._errors import ArgumentTypeError, Error
from ._launch_options import DEFAULTS, LaunchOptions
from ._producers import NoMemory, Producer, Torch, host_view, in_host_memory, producer_of, stream_handle
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
    """False for a complex view of torch's that is conjugated only when it is read, which no DLPack can say."""
    return not hasattr(tensor, "is_conj") or not tensor.is_conj()


def _named(op: Op, arg: Arg, error: Error) -> Error:
    return type(error)(f'{op.name}: argument "{arg.name}": {error}')


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
            raise _named(self.op, arg, error) from None
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
                made = self.producer.empty(shapes[arg.name], dtypes, self.anchor, stream)
            else:
                made = TensorSpec(shapes[arg.name], dtypes[0], device=self.producer.device_of(self.anchor))
            self.values[self.op.args.index(arg)] = made

    def _value(self, arg: Arg) -> Any:
        return self.values[self.op.args.index(arg)]

    def _output_shapes(self) -> dict[str, tuple[Any, ...]]:
        tensors = {arg.name: value for arg, value in zip(self.op.args, self.values) if arg.is_tensor and value is not None}
        try:
            return output_shapes(self.op, {name: producer_of(value).shape_of(value) for name, value in tensors.items()})
        except (ValueError, KeyError) as error:
            # The launch says it better where it can; a missing input is named by the signature.
            raise ArgumentTypeError(f"{self.op.name}: {error}") from None

    def _dtype(self, name: str) -> str:
        value = self._value(self.op.arg(name))
        try:
            return dtype_name(producer_of(value).dtype_of(value))
        except ValueError as error:
            raise ArgumentTypeError(f'{self.op.name}: argument "{name}": {error}') from None

    def natives(self, stream: int) -> list[Any]:
        """The values as the binding takes them."""
        natives: list[Any] = []
        for arg, value in zip(self.op.args, self.values):
            if value is None or not arg.is_tensor:
                natives.append(value)
                continue
            try:
                seen = host_view(value) if arg.host_memory else value
                natives.append(producer_of(value).to_native(value, stream) if seen is value else seen)
            except Error as error:
                raise _named(self.op, arg, error) from None
            except (BufferError, TypeError, ValueError, RuntimeError) as error:
                raise ArgumentTypeError(f'{self.op.name}: argument "{arg.name}": its memory cannot be had by DLPack: {error}') from error
        return natives

    def workspace(self, stream: int, count: int) -> Any:
        """So many bytes for a launch on the stream, of the producer's memory; None when none are needed."""
        if count == 0:
            return None
        made = self.producer.empty((count,), ("u8",), self.anchor, stream)
        return producer_of(made).to_native(made, stream)


def launch(
    engine: int, op: Op, values: Sequence[Any], stream: Any = None, options: LaunchOptions | None = None, workspace: Any = None
) -> Call:
    call = Call(op, values)
    handle = call.stream(stream)
    call.complete(handle, memory=True)
    natives = call.natives(handle)
    if workspace is not None:
        room = producer_of(workspace).to_native(workspace, handle)
    else:
        count = _native.call("op_workspace_bytes", engine, op.name, *natives) if op.workspace else 0
        room = call.workspace(handle, count)
    _native.call("op_launch", engine, op.name, handle, room, *_details(options), *natives)
    return call


def launch_plan(plan: int, op: Op, values: Sequence[Any], stream: Any, options: LaunchOptions | None, workspace: Any) -> Call:
    call = Call(op, values)
    handle = call.stream(stream)
    call.complete(handle, memory=True)
    if workspace is not None:
        room = producer_of(workspace).to_native(workspace, handle)
    else:
        room = call.workspace(handle, _native.call("plan_workspace_bytes", plan))
    _native.call("plan_launch", plan, handle, room, *_details(options), *call.natives(handle))
    return call


def ask(function: str, engine: int, op: Op, values: Sequence[Any]) -> Any:
    """What is asked of a call that is not launched: its tensors' memory is not looked at."""
    return _native.call(function, engine, op.name, *described(op, values))


def described(op: Op, values: Sequence[Any]) -> list[Any]:
    call = Call(op, values)
    stream = call.stream(None)
    call.complete(stream, memory=False)
    return call.natives(stream)


def _details(options: LaunchOptions | None) -> tuple[int, ...]:
    return DEFAULTS if options is None else options.to_native()
