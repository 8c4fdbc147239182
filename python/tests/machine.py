"""A machine without a GPU: the project's fake driver, and tensors that lie in its memory."""

from __future__ import annotations

import ctypes
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kiln import _native, _spec


class PlainLaunch(ctypes.Structure):
    """As in tests/fake_driver/plain_control.cpp."""

    _fields_ = [
        ("symbol", ctypes.c_char * 256),
        ("stream", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("attributes", ctypes.c_int),
    ]


@dataclass(frozen=True)
class Launch:
    symbol: str
    stream: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    attributes: int


class Machine:
    """A driver of its own: a copy of the fake one, which shares no state with another's."""

    def __init__(self, fake_driver: Path, folder: Path) -> None:
        self.context = 0
        self.driver = folder / "libcuda.so.1"
        shutil.copy(fake_driver, self.driver)
        self._library = ctypes.CDLL(str(self.driver))
        self._library.kiln_fake_enter.restype = ctypes.c_void_p
        self._library.kiln_fake_make_stream.restype = ctypes.c_void_p
        self._library.kiln_fake_launch_count.restype = ctypes.c_size_t

    def enter(self, device: int = 0) -> int:
        """Makes a new context of the device, current on this thread."""
        return self._library.kiln_fake_enter(device)

    def set_current(self, context: int | None) -> None:
        self._library.kiln_fake_set_current(ctypes.c_void_p(context))

    def make_stream(self) -> int:
        return self._library.kiln_fake_make_stream()

    def add_memory(self, address: int, size: int, device: int = 0) -> None:
        self._library.kiln_fake_add_memory(ctypes.c_uint64(address), ctypes.c_uint64(size), device)

    def set_recording(self, on: bool) -> None:
        self._library.kiln_fake_set_recording(int(on))

    def forget(self) -> None:
        self._library.kiln_fake_forget_calls()

    def launches(self) -> list[Launch]:
        found = []
        for index in range(self._library.kiln_fake_launch_count()):
            plain = PlainLaunch()
            self._library.kiln_fake_launch(ctypes.c_size_t(index), ctypes.byref(plain))
            found.append(Launch(plain.symbol.decode(), plain.stream or 0, tuple(plain.grid), tuple(plain.block), plain.attributes))
        return found


class Array:
    """A tensor of a library with DLPack and nothing more, whose memory is only an address. Notes the streams that it is asked to be ready
    for."""

    _next = 0x10_0000_0000

    def __init__(
        self, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None, device_type: int = 2, device: int = 0
    ) -> None:
        self.shape, self.dtype, self.strides = shape, dtype, strides or _spec.contiguous_strides(shape)
        self.device_type, self.ordinal = device_type, device
        self.address = Array._next
        Array._next += 4096 + 256 * math.ceil(16 * math.prod(shape) / 256) * (strides is not None and 64 or 1)
        self.asked_for: list[int | None] = []

    def view(self) -> Any:
        return _spec.view(self.address, self.dtype, self.device_type, self.ordinal, self.shape, self.strides)

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        self.asked_for.append(stream)
        return self.view().__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, self.ordinal


def versioned(capsule: Any) -> Any:
    """What a capsule of DLPack 1 begins with."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    return _native._Versioned.from_address(pointer(ctypes.py_object(capsule), b"dltensor_versioned"))


class CudaArray:
    """An array as numba has it: __cuda_array_interface__, and no DLPack."""

    def __init__(self, array: Array, typestr: str, itemsize: int, stream: int | None = None) -> None:
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": typestr,
            "data": (array.address, False),
            "strides": tuple(step * itemsize for step in array.strides),
            "stream": stream,
            "version": 3,
        }


# The class has it too, as numba's has a property.
CudaArray.__cuda_array_interface__ = None  # type: ignore[attr-defined]
