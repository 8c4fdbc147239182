"""The library, through apache-tvm-ffi. Loaded at first use: importing it looks for torch and may write a file for an old one, and importing
Kiln does neither."""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from pathlib import Path
from typing import Any

from . import _errors

LIBRARIES = Path(__file__).parent / "lib"

_lock = threading.Lock()
_module: Any = None
_ended = False


def _load() -> Any:
    import tvm_ffi

    for status, cls in _errors.by_status().items():
        tvm_ffi.register_error(f"kiln.{status}", cls)
    tvm_ffi.register_error("kiln.argument_type", _errors.ArgumentTypeError)
    tvm_ffi.register_error("kiln.not_made", _errors.NotMade)
    tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)  # Out of a callback too.
    module = tvm_ffi.load_module(str(LIBRARIES / "libkiln_python.so"))
    if _ended:
        module.get_function("engines_end")()
    return module


def module() -> Any:
    global _module
    if _module is None:
        with _lock:
            if _module is None:
                _module = _load()
    return _module


class Unique:
    """Holds something of this process that there is only one of."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a kiln.{type(self).__name__} can neither be copied nor pickled: it stands for something of this process")


def renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


def end() -> None:
    """Closes every engine, those too that only launchers hold, and keeps threads of the library away from Python from now on."""
    global _ended
    _ended = True
    if _module is not None:
        call("engines_end")


@cache
def function(name: str) -> Any:
    return module().get_function(name)


def call(name: str, *args: Any) -> Any:
    return function(name)(*args)


class _Versioned(ctypes.Structure):
    """The beginning of DLPack's DLManagedTensorVersioned, which the binding library does not look at."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    ]


def _check_version(capsule: Any, written: bool) -> None:
    name = b"dltensor_versioned"
    if not ctypes.pythonapi.PyCapsule_IsValid(ctypes.py_object(capsule), name):
        return
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    described = _Versioned.from_address(pointer(ctypes.py_object(capsule), name))
    if described.major != 1:
        raise BufferError(f"it is of DLPack {described.major}.{described.minor}, and this reads 1")
    if written and described.flags & 1:
        raise BufferError("it is read-only, and would be written")


def from_capsule(capsule: Any, written: bool = False) -> Any:
    """A tensor from what __dlpack__ returned."""
    import tvm_ffi

    _check_version(capsule, written)
    return tvm_ffi.from_dlpack(capsule)
