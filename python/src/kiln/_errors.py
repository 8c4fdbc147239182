"""What goes wrong, as exceptions: one class for each status of the library."""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """What the library reports. `status` is its code's name, as kiln.h has it; the text says what was asked, what was found and what can
    be done."""

    status: ClassVar[str] = "internal"


class InvalidArgumentError(Error, ValueError):
    """Outside an op's contract: the text names the op and the argument."""

    status = "invalid_argument"


class OutsideContract(InvalidArgumentError):
    """What is asked of a call has an answer nonetheless."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument that is neither a tensor nor a number, where one of these belongs."""


class UnknownOpError(Error, LookupError):
    """No op of that name is registered."""

    status = "unknown_op"


class DuplicateOpError(Error, ValueError):
    """An op of that name is registered already."""

    status = "duplicate_op"


class UnsupportedTargetError(Error):
    """The op does not serve this device."""

    status = "unsupported_target"


class CompilerUnavailableError(Error):
    """No usable NVRTC, and something must be compiled."""

    status = "compiler_unavailable"


class CompileFailedError(Error):
    """The text carries NVRTC's whole log."""

    status = "compile_failed"


class DriverUnavailableError(Error):
    """No usable CUDA driver, or no device."""

    status = "driver_unavailable"


class DriverError(Error):
    """The text names the driver call and its code."""

    status = "driver_error"


class FileError(Error, OSError):
    """A file that the caller named cannot be used."""

    status = "io"


class CompileForbiddenError(Error):
    """In no cache, and the policy forbids compiling."""

    status = "compile_forbidden"


class CompilerLostError(Error):
    """The compiler crashed or hung, twice in a row."""

    status = "compiler_lost"


class CancelledError(Error):
    """Given up unfinished, because somebody asked for that."""

    status = "cancelled"


class NotLoadedError(Error):
    """Missing while its stream is captured, or unloaded."""

    status = "not_loaded"


class NotStoredError(Error):
    """Compiled, and no cache directory could take it."""

    status = "not_stored"


class NotMade(RuntimeError):
    """The short way of a call could not make what the call needs, and launched nothing: the long way does so, or says why not."""


def by_status() -> dict[str, type[Error]]:
    """Classes by status; the one that is not here is Error itself, for what a newer library may say."""
    found: dict[str, type[Error]] = {"internal": Error}
    for cls in Error.__subclasses__():
        if cls.__module__ == __name__:  # A user's own class is none that the library raises.
            found[cls.status] = cls
    return found
