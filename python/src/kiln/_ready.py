"""Getting ready: calls that will come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from . import _calls, _errors, _native, _signature
from ._registry import Op
from ._text import is_text


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


class _Progress:
    """What a warm-up calls after each step. An exception of the receiver, or of a signal's handler that runs here, ends the warm-up."""

    def __init__(self, receiver: Callable[[int, int, str], None] | None) -> None:
        self.receiver = receiver
        self.raised: BaseException | None = None

    def __call__(self, done: int, total: int, name: str) -> bool:
        """Whether to go on."""
        try:
            if self.receiver is not None and self.raised is None:
                self.receiver(done, total, name)
        except BaseException as error:  # Raised again by whoever called the warm-up.
            self.raised = error
        return self.raised is None


def _flat(op: Op, call: Call) -> list[Any]:
    natives = _calls.described(op, _signature.bind(op, call.args, call.kwargs))
    return [op.name, len(natives), *natives]


@dataclass(frozen=True)
class PrebuildReport:
    """Kernels that were compiled and stored, that were there, and that could not be had; pairs of an op and a target that it does not serve."""

    compiled: int
    cached: int
    failed: int
    skipped: int
    seconds: float
    failures: tuple[Failure, ...] = field(default=())


Progress = Callable[[int, int, str], None]


def names(what: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, (str, bytes)):
        raise _errors.ArgumentTypeError(f"{what} is {given!r}; it must be a list of names")
    listed = list(given)
    for name in listed:
        if not isinstance(name, str):
            raise _errors.ArgumentTypeError(f"{what} has {name!r}; it must be a list of names")
        if not is_text(name):
            raise _errors.InvalidArgumentError(f"{what} has {name!r}, which names nothing: it holds a NUL or what UTF-8 cannot")
    return listed


def _jobs(jobs: int) -> int:
    if not isinstance(jobs, int) or not 0 <= jobs < 1 << 31:
        raise _errors.InvalidArgumentError(f"jobs is {jobs!r}; it must be a number of compiles at a time, or 0")
    return jobs


def _carried_out(function: str, engine: Any, asked: dict[str, Any], progress: Progress | None, strict: bool, *calls: Any) -> dict[str, Any]:
    """What the binding tells of it, with failures that are no exceptions."""
    step = _Progress(progress)
    try:
        told = json.loads(_native.call(function, engine, json.dumps(asked), step, *calls))
    finally:
        if step.raised is not None:
            raise step.raised
    failures = tuple(Failure(**failure) for failure in told["failures"])
    if failures and strict:
        first = failures[0]
        more = f" (and {len(failures) - 1} more could not be had)" if len(failures) > 1 else ""
        named = "" if first.message.startswith(f"{first.name}: ") else f"{first.name}: "
        raise _errors.by_status().get(first.status, _errors.Error)(f"{named}{first.message}{more}")
    return {**told, "failures": failures}


def warmup(
    engine: Any,
    op_of: Callable[[str], Op],
    calls: Iterable[Call],
    ops: Iterable[str],
    manifest: str | None,
    jobs: int,
    progress: Progress | None,
    strict: bool,
) -> WarmupReport:
    asked = {"ops": names("ops", ops), "manifest": manifest, "jobs": _jobs(jobs)}
    flat: list[Any] = []
    for call in calls:
        if not isinstance(call, Call):
            raise _errors.ArgumentTypeError(f"a warm-up takes kiln.Call(op, arguments), found a {type(call).__name__}")
        flat += _flat(op_of(call.name), call)
    return WarmupReport(**_carried_out("warmup", engine, asked, progress, strict, *flat))


def prebuild(
    engine: Any, targets: Iterable[str], ops: Iterable[str] | None, jobs: int, progress: Progress | None, strict: bool
) -> PrebuildReport:
    asked = {"targets": names("targets", targets), "ops": [] if ops is None else names("ops", ops), "jobs": _jobs(jobs)}
    if ops is not None and not asked["ops"]:
        raise _errors.InvalidArgumentError("ops is empty; leave it out for every op")
    return PrebuildReport(**_carried_out("prebuild", engine, asked, progress, strict))


class Prefetch(_native.Unique):
    """A compile under way. Dropping it waits for nothing; what was started goes on."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def ready(self) -> bool:
        """Whether it has finished, well or not. Never waits."""
        return _native.call("prefetch_poll", self._handle)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it has finished, at most so many seconds. False when the time was over before. Raises what went wrong."""
        longest = 1e9  # Seconds; as good as for ever, and a number of nanoseconds.
        return _native.call("prefetch_wait", self._handle, -1 if timeout is None else int(max(0.0, min(timeout, longest)) * 1e9))
