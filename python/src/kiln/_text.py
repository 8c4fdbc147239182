"""Text and paths on their way to the library, which has both as bytes that end at the first NUL."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ._errors import ArgumentTypeError, InvalidArgumentError

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# A path need be no text. The binding is told, and tells, a character for each of its bytes.
_BYTES = "latin-1"


def is_text(value: str) -> bool:
    """Whether it gets there as it is."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def printable(value: str) -> str:
    """For messages about what is no such text."""
    return value.encode(errors="backslashreplace").decode().replace("\0", "\\0")


def path(what: str, given: Path | None) -> str | None:
    """As the binding takes one."""
    if given is None:
        return None
    try:
        name = os.fsencode(given)
    except TypeError:
        raise ArgumentTypeError(f"{what} must be a path (a str, bytes or os.PathLike), found {given!r}") from None
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{what} is {given!r}, and no file's name can be that: pass the name's bytes") from None
    if b"\0" in name:
        raise InvalidArgumentError(f"{what} is {given!r}, and no file's name has a NUL")
    return name.decode(_BYTES)


def paths(what: str, given: Sequence[Path]) -> list[str]:
    if isinstance(given, (str, bytes, os.PathLike)):
        raise ArgumentTypeError(f"{what} is {given!r}; it must be a list of paths")
    return [name for name in (path(f"each of {what}", each) for each in given) if name is not None]


def path_told(name: Any) -> str:
    """A path that the binding told, as Python has it."""
    return os.fsdecode(name.encode(_BYTES))
