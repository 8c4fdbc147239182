"""The library, through apache-tvm-ffi. Loaded at first use: importing it looks for torch and may write a file for an old one, and importing
Kiln does neither."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from . import _errors

LIBRARIES = Path(__file__).parent / "lib"

_lock = threading.Lock()
_module: Any = None


def _load() -> Any:
    import tvm_ffi

    for status, cls in _errors.by_status().items():
        tvm_ffi.register_error(f"kiln.{status}", cls)
    tvm_ffi.register_error("kiln.argument_type", _errors.ArgumentTypeError)
    return tvm_ffi.load_module(str(LIBRARIES / "libkiln_python.so"))


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


def loaded() -> bool:
    return _module is not None


def function(name: str) -> Any:
    return module().get_function(name)


def call(name: str, *args: Any) -> Any:
    return module().get_function(name)(*args)


def from_capsule(capsule: Any) -> Any:
    """A tensor from what __dlpack__ returned."""
    import tvm_ffi

    return tvm_ffi.from_dlpack(capsule)
