"""Getting ready: calls that will come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from . import _calls, _errors, _native, _signature
from ._registry import Op


class Call:
    """A call that will come: an op's name and the arguments of its function, which may be TensorSpec."""

    def __init__(self, name: str, /, *args: Any, **kwargs: Any) -> None:
        self.name, self.args, self.kwargs = name, args, kwargs


@dataclass(frozen=True)
class Failure:
    """What could not be had: the call's or kernel's name, the status, and why."""

    name: str
    status: str
    message: str


@dataclass(frozen=True)
class WarmupReport:
    """Calls and kernels that are ready and that are not; kernels compiled and loaded meanwhile."""

    prepared: int
    failed: int
    compiled: int
    loaded: int
    seconds: float
    failures: tuple[Failure, ...] = field(default=())


def _flat(op: Op, call: Call) -> list[Any]:
    natives = _calls.described(op, _signature.bind(op, call.args, call.kwargs))
    return [op.name, len(natives), *natives]


def warmup(
    engine: Any,
    op_of: Callable[[str], Op],
    calls: Iterable[Call],
    manifest: str | None,
    jobs: int,
    progress: Callable[[int, int, str], None] | None,
    strict: bool,
) -> WarmupReport:
    flat = [value for call in calls for value in _flat(op_of(call.name), call)]
    raised: list[BaseException] = []

    def watched(done: int, total: int, name: str) -> bool:
        try:
            progress(done, total, name)  # type: ignore[misc]
        except BaseException as error:
            raised.append(error)  # Not through the binding, which would bring another one back.
        return not raised

    try:
        told = json.loads(_native.call("warmup", engine, manifest or "", jobs, watched if progress else None, *flat))
    except _errors.CancelledError:
        if raised:
            raise raised[0] from None
        raise
    if raised:
        raise raised[0]
    failures = tuple(Failure(**failure) for failure in told.pop("failures"))
    if failures and strict:
        first = failures[0]
        more = f" (and {len(failures) - 1} more could not be had)" if len(failures) > 1 else ""
        named = "" if first.message.startswith(f"{first.name}: ") else f"{first.name}: "
        raise _errors.by_status().get(first.status, _errors.Error)(f"{named}{first.message}{more}")
    return WarmupReport(**told, failures=failures)


class Prefetch(_native.Unique):
    """A compile under way. Dropping it waits for nothing; what was started goes on."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def ready(self) -> bool:
        """Whether it has finished, well or not. Never waits."""
        return _native.call("prefetch_poll", self._handle)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has finished, at most so many seconds. False when the time was over before. Raises what went wrong."""
        return _native.call("prefetch_wait", self._handle, -1 if timeout is None else max(0, int(timeout * 1e9)))
