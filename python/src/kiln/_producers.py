"""The libraries that tensors come from: what their current stream is, how one of their tensors reaches the library, and how another one is
allocated. torch's tensors go the short way (see direct_types), and come here for what that cannot do."""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Sequence
from typing import Any

from . import _native
from ._dtypes import DTYPES, NoDtype, dtype_name
from ._errors import ArgumentTypeError, InvalidArgumentError
from ._outputs import torch_dtype
from ._spec import CPU, CUDA, CUDA_HOST, MANAGED, TensorSpec, contiguous_strides, view

# How DLPack and __cuda_array_interface__ call the legacy default stream, whose handle is null.
LEGACY_STREAM = 1

# Types whose values an op's launcher takes as they are: they say by the C exchange of DLPack what memory and which current stream they have.
# torch's are put in when they first come.
NO_TENSORS = frozenset((type(None), bool, int, float))
direct_types: set[type] = set(NO_TENSORS)


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
        if hasattr(tensor, "is_conj"):
            raise  # From a signal's handler.
        return True


class Producer:
    """Any library with DLPack and nothing more: legacy default stream, no allocation."""

    has_memory = True

    def current_stream(self, tensor: Any) -> int:
        """Of the tensor's device."""
        return 0

    def to_native(self, tensor: Any, stream: int, written: bool = False) -> Any:
        """The tensor as the binding takes it, ready for work on the stream. max_version is not asked for: without it, what is read-only is
        the producer's to refuse."""
        if tensor.__dlpack_device__()[0] not in (CUDA, MANAGED):
            return _native.from_capsule(tensor.__dlpack__(), written)  # It has no stream, and the launch says what is wrong with it.
        return _native.from_capsule(tensor.__dlpack__(stream=stream or LEGACY_STREAM), written)

    def to_described(self, tensor: Any, stream: int, written: bool = False) -> Any:
        """The same where nothing is launched, and no memory looked at."""
        return self.to_native(tensor, stream, written)

    def device_of(self, tensor: Any) -> int:
        kind, index = tensor.__dlpack_device__()
        return int(index) if kind == CUDA else 0

    def shape_of(self, tensor: Any) -> tuple[int, ...]:
        return tuple(self._said(tensor, "shape"))

    def dtype_of(self, tensor: Any) -> str:
        dtype = self._said(tensor, "dtype")
        return getattr(dtype, "name", None) or str(dtype)

    def _said(self, tensor: Any, what: str) -> Any:
        if not hasattr(tensor, what):
            raise ArgumentTypeError(
                f"a {type(tensor).__name__} without {what}, which an output that is left out would follow: pass the output"
            )
        return getattr(tensor, what)

    def empty(self, shape: Sequence[int], dtypes: Sequence[str], like: Any, stream: int) -> Any:
        """A new tensor of the first of `dtypes` that the library has, on the device of `like`, for work on the stream."""
        raise InvalidArgumentError(f"no memory is allocated for tensors of {type(like).__module__}: pass what is to be written")


class NoMemory(Producer):
    """TensorSpec: described, and refused where it is to be launched."""

    has_memory = False

    def to_native(self, tensor: TensorSpec, stream: int, written: bool = False) -> Any:
        return tensor.to_native()

    def device_of(self, tensor: TensorSpec) -> int:
        return tensor.device

    def dtype_of(self, tensor: TensorSpec) -> str:
        try:
            return dtype_name(tensor.dtype)
        except NoDtype:
            return super().dtype_of(tensor)  # What it is called, for what is said of it.

    def empty(self, shape: Sequence[int], dtypes: Sequence[str], like: TensorSpec, stream: int) -> TensorSpec:
        return TensorSpec(tuple(shape), dtypes[0], device=like.device)


def on_host(tensor: Any) -> bool:
    """Whether it says by DLPack that it lies in the CPU's memory."""
    return hasattr(tensor, "__dlpack_device__") and tensor.__dlpack_device__()[0] == CPU


def in_host_memory(tensor: Any) -> bool:
    """Whether it is a tensor of torch that lies in pinned memory, which DLPack does not tell from the CPU's for torch."""
    device = getattr(tensor, "device", None)
    return getattr(device, "type", None) == "cpu" and hasattr(tensor, "is_pinned") and bool(tensor.is_pinned())


def host_view(tensor: Any) -> Any:
    """The same memory as an argument that may lie there, under its address, which is the device's too; anything else as it is."""
    if not in_host_memory(tensor):
        return tensor
    return view(tensor.data_ptr(), dtype_name(tensor.dtype), CUDA_HOST, 0, tuple(tensor.shape), tuple(tensor.stride()))


class Torch(Producer):
    def __init__(self) -> None:
        self.torch = sys.modules["torch"]
        # Without making an object of it, where torch has that.
        self.stream_of: Any = getattr(
            self.torch._C, "_cuda_getCurrentRawStream", lambda device: self.torch.cuda.current_stream(device).cuda_stream
        )

    def current_stream(self, tensor: Any) -> int:
        if not tensor.is_cuda or not self.torch.cuda.is_initialized():
            return 0  # A tensor that the library will refuse by its name, or one without memory; or nobody has made a stream yet.
        return int(self.stream_of(self.device_of(tensor)))

    def _is_tracers(self, tensor: Any) -> bool:
        return type(tensor).__torch_dispatch__ is not self.torch.Tensor.__torch_dispatch__

    def _require_memory(self, tensor: Any) -> None:
        if self._is_tracers(tensor):
            raise ArgumentTypeError(f"a {type(tensor).__name__} is no tensor with memory of its own; torch.ops.kiln has what tracers need")

    def to_native(self, tensor: Any, stream: int, written: bool = False) -> Any:
        self._require_memory(tensor)
        if self.torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            raise ArgumentTypeError("a tensor of a functorch transform such as vmap has no memory of its own")
        if tensor.device.type not in ("cuda", "cpu") or tensor.layout is not self.torch.strided or tensor.is_nested or tensor.is_quantized:
            kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else str(tensor.layout)
            raise InvalidArgumentError(f"must be a dense tensor on a CUDA device, found a {kind} one on {tensor.device}")
        if tensor.is_conj():
            raise InvalidArgumentError("a view that is conjugated when it is read: pass its resolve_conj()")
        if tensor.is_neg():
            raise InvalidArgumentError("a view that is negated when it is read: pass its resolve_neg()")
        return tensor if type(tensor) in direct_types else tensor.detach()

    def to_described(self, tensor: Any, stream: int, written: bool = False) -> Any:
        device = tensor.device
        if self._is_tracers(tensor) and device.type in ("cuda", "cpu"):  # All that is asked about it is there.
            spec = TensorSpec(tuple(tensor.shape), tensor.dtype, tuple(tensor.stride()), device.index or 0)
            return spec.to_native(CUDA if device.type == "cuda" else CPU)
        return self.to_native(tensor, stream, written)

    def device_of(self, tensor: Any) -> int:
        return tensor.device.index or 0

    def dtype_of(self, tensor: Any) -> str:
        return str(tensor.dtype)

    def empty(self, shape: Sequence[int], dtypes: Sequence[str], like: Any, stream: int) -> Any:
        torch, device = self.torch, like.device
        self._require_memory(like)
        shape, dtype = tuple(shape), torch_dtype(self.torch, dtypes)
        if not like.is_cuda or self.current_stream(like) == stream:
            return torch.empty_strided(shape, contiguous_strides(shape), dtype=dtype, device=device)
        # The allocator hands memory out, and takes it back, in the order of the stream that is current.
        with torch.cuda.stream(torch.cuda.ExternalStream(stream, device)):
            return torch.empty_strided(shape, contiguous_strides(shape), dtype=dtype, device=device)


class CuPy(Producer):
    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]

    def current_stream(self, tensor: Any) -> int:
        return int(self.cupy.cuda.get_current_stream(self.device_of(tensor)).ptr)

    def device_of(self, tensor: Any) -> int:
        return int(tensor.device.id)

    def empty(self, shape: Sequence[int], dtypes: Sequence[str], like: Any, stream: int) -> Any:
        cupy = self.cupy
        there: Any = contextlib.nullcontext()
        if self.current_stream(like) != stream:
            there = cupy.cuda.ExternalStream(stream, like.device.id) if stream else cupy.cuda.Stream.null
        for name in dtypes:
            with contextlib.suppress(TypeError, ValueError):
                dtype = cupy.dtype(DTYPES[name].numpy)
                with like.device, there:
                    return cupy.empty(tuple(shape), dtype=dtype)
        raise InvalidArgumentError(f"CuPy has no element type {' or '.join(dtypes)}: pass what is to be written, as a tensor that has it")


def _same_stream(produced: Any, stream: int) -> None:
    """Refuses an array of __cuda_array_interface__ that is still being made on another stream than the call's."""
    if produced is None:
        return
    if not isinstance(produced, int) or produced == 0:
        raise InvalidArgumentError(f"the stream of its __cuda_array_interface__ is {produced!r}, which the interface forbids")
    if (0 if produced == LEGACY_STREAM else produced) != stream:
        raise InvalidArgumentError(
            f"an array is still being made on stream {produced:#x}, and the call is for {stream:#x}: synchronise, or pass stream="
        )


def _in_elements(strides: Sequence[int] | None, size: int) -> tuple[int, ...] | None:
    if strides is None:
        return None
    if any(step % size for step in strides):
        raise InvalidArgumentError(f"strides of {tuple(strides)} bytes, which are no multiples of its elements' {size}")
    return tuple(step // size for step in strides)


class CudaArray(Producer):
    """__cuda_array_interface__ without DLPack, as numba has it. Its description is numpy's array interface, so it has numpy's types."""

    _DTYPES = {"<f4": "f32", "|u1": "u8", "<i4": "i32", "<i8": "i64", "|b1": "bool", "<c8": "complex64"}

    def _interface(self, tensor: Any) -> dict[str, Any]:
        try:
            described = dict(tensor.__cuda_array_interface__)
        except Exception as error:
            raise ArgumentTypeError(f"its __cuda_array_interface__ cannot be read: {error!r}") from error
        missing = [name for name in ("shape", "typestr", "data") if name not in described]
        if missing:
            raise ArgumentTypeError(f"its __cuda_array_interface__ lacks {', '.join(missing)}")
        return described

    def to_native(self, tensor: Any, stream: int, written: bool = False) -> Any:
        described = self._interface(tensor)
        dtype = self.dtype_of(tensor)
        address, read_only = described["data"]
        if written and read_only:
            raise InvalidArgumentError("an array that is read-only cannot be written")
        if described.get("mask") is not None:
            raise InvalidArgumentError("an array with a mask, which no kernel looks at")
        _same_stream(described.get("stream"), stream)
        steps = _in_elements(described.get("strides"), DTYPES[dtype].bits // 8)
        if steps is not None and len(steps) != len(described["shape"]):
            raise InvalidArgumentError(f"an array of {len(described['shape'])} axes has {len(steps)} strides")
        return view(address or 0, dtype, CUDA, self.device_of(tensor), described["shape"], steps)

    def device_of(self, tensor: Any) -> int:
        # numba's arrays know their context; the interface itself says nothing of a device.
        context = getattr(tensor, "context", None) or getattr(getattr(tensor, "gpu_data", None), "context", None)
        return int(getattr(getattr(context, "device", None), "id", 0))

    def shape_of(self, tensor: Any) -> tuple[int, ...]:
        return tuple(self._interface(tensor)["shape"])

    def dtype_of(self, tensor: Any) -> str:
        text = self._interface(tensor)["typestr"]
        if text not in self._DTYPES:
            raise ArgumentTypeError(f"an array of element type {text!r}; Kiln has {', '.join(self._DTYPES)} among those of this interface")
        return self._DTYPES[text]


_producers: dict[type, Producer] = {}


def _make(cls: type) -> Producer:
    root = cls.__module__.partition(".")[0]
    if issubclass(cls, TensorSpec):
        return NoMemory()
    if "torch" in sys.modules and issubclass(cls, sys.modules["torch"].Tensor):
        return Torch()
    if root == "cupy":
        return CuPy()
    if hasattr(cls, "__dlpack__") and hasattr(cls, "__dlpack_device__"):
        return Producer()
    if hasattr(cls, "__cuda_array_interface__"):
        return CudaArray()
    raise ArgumentTypeError(f"a {cls.__module__}.{cls.__qualname__} is no tensor: it has neither __dlpack__ nor __cuda_array_interface__")


def producer_of(tensor: Any) -> Producer:
    """ArgumentTypeError for what is no tensor."""
    cls = type(tensor)
    found = _producers.get(cls)
    if found is None:
        found = _producers[cls] = _make(cls)
    return found


def quick_producer_of(value: Any) -> Torch | None:
    """torch, of a tensor that takes the short way; None of anything else."""
    cls = type(value)
    producer = producer_of(value) if cls in direct_types and cls not in NO_TENSORS else None
    return producer if isinstance(producer, Torch) else None


def _in_range(handle: int) -> int:
    if not 0 <= handle < 1 << 63:
        raise InvalidArgumentError(f"stream: {handle} is no handle of a stream")
    return handle


def stream_handle(stream: Any) -> int:
    """The handle of a stream: an integer, or an object of torch, CuPy, numba, or with __cuda_stream__."""
    if isinstance(stream, bool):
        raise ArgumentTypeError(f"stream: {stream} is no stream of torch, CuPy or numba, nor an integer")
    if hasattr(stream, "__index__"):
        return _in_range(operator.index(stream))
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return _in_range(int((protocol() if callable(protocol) else protocol)[1]))
    for name in ("cuda_stream", "ptr", "handle"):
        value = getattr(stream, name, None)
        value = getattr(value, "value", value)  # numba's is a ctypes pointer, null for the default stream
        if isinstance(value, int):
            return _in_range(value)
        if value is None and name == "handle" and hasattr(stream, name):
            return 0
    raise ArgumentTypeError(f"stream: a {type(stream).__name__} is no stream of torch, CuPy or numba, nor an integer")
