"""Tensors without memory: what a call will look like."""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _native
from ._dtypes import DTYPES, dtype_name
from ._errors import ArgumentTypeError, InvalidArgumentError

CPU, CUDA, CUDA_HOST, MANAGED = 1, 2, 3, 13  # DLPack's device types
MOST_DEVICE = (1 << 31) - 1  # That DLPack has.
MOST_ELEMENTS = 1 << 62


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """As torch has them, for shapes without elements too."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def view(address: int, dtype: str, device_type: int, device: int, shape: Sequence[int], strides: Sequence[int] | None) -> Any:
    """A tensor at an address, as the binding takes it; the memory stays its owner's."""
    code, bits, *_ = DTYPES[dtype]
    steps = contiguous_strides(shape) if strides is None else strides
    return _native.call("view", address, code, bits, device_type, device, *shape, *steps)


def _whole(what: str, values: Any, least: int | None) -> tuple[int, ...]:
    try:
        whole = tuple(operator.index(value) for value in values)
    except TypeError:
        raise ArgumentTypeError(f"TensorSpec: {what} must be whole numbers, found {values!r}") from None
    if any(not -MOST_ELEMENTS < value < MOST_ELEMENTS or (least is not None and value < least) for value in whole):
        raise InvalidArgumentError(f"TensorSpec: {what} is {values!r}, which no tensor has")
    return whole


class _Addresses:
    """Addresses for tensors without memory, no two of which overlap: what is asked about a call looks at these too."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next = 1 << 40

    def take(self, size: int) -> int:
        with self.lock:
            address = 1 << 40 if self.next > 1 << 60 else self.next
            self.next = address + (size + 4095) // 4096 * 4096
        return address


_addresses = _Addresses()


def renew_lock() -> None:
    _addresses.lock = threading.Lock()


@dataclass(frozen=True)
class TensorSpec:
    """What a tensor will be like: stands for one in `plan`, `warmup`, `prefetch` and `can_use`, which look at no memory.

    dtype is Kiln's name ("bf16"), or a dtype of torch, numpy, CuPy or JAX. Strides are in elements; without them it is contiguous.
    """

    shape: tuple[int, ...]
    dtype: Any
    strides: tuple[int, ...] | None = None
    device: int = 0

    def __post_init__(self) -> None:
        set_field = object.__setattr__  # It is frozen from now on.
        set_field(self, "shape", _whole("shape", self.shape, 0))
        if self.strides is not None:
            set_field(self, "strides", _whole("strides", self.strides, None))
            if len(self.strides) != len(self.shape):
                raise InvalidArgumentError(f"a TensorSpec of {len(self.shape)} axes has {len(self.strides)} strides")
        if math.prod(max(extent, 1) for extent in self.shape) >= MOST_ELEMENTS:
            raise InvalidArgumentError(f"TensorSpec: shape is {self.shape!r}, which is more elements than a tensor can have")
        set_field(self, "device", _whole("device", (self.device,), 0)[0])
        if self.device > MOST_DEVICE:
            raise InvalidArgumentError(f"TensorSpec: device is {self.device}, which no machine has")
        if isinstance(self.dtype, str):  # What else is no dtype of Kiln's may be one that an op is asked about.
            try:
                dtype_name(self.dtype)
            except ValueError as error:
                raise ArgumentTypeError(f"TensorSpec: {error}") from None

    def to_native(self, device_type: int = CUDA) -> Any:
        name = dtype_name(self.dtype)
        strides = contiguous_strides(self.shape) if self.strides is None else self.strides
        elements = 1 + sum((extent - 1) * stride for extent, stride in zip(self.shape, strides))
        address = _addresses.take(max(elements, 1) * DTYPES[name].bits // 8)
        return view(address, name, device_type, self.device, self.shape, strides)
