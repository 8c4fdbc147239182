"""Engines: what holds kernels, and makes them when a call needs them."""

from __future__ import annotations

import atexit
import json
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from . import _calls, _describe, _native, _own_op_checks, _registry, _short, _signature, _spec, _text
from ._errors import ArgumentTypeError, InvalidArgumentError, OutsideContract
from ._launch_options import OFF, ON, LaunchOptions
from ._own_op import Kernel, OwnArg, OwnOp, describe
from ._plan import Plan
from ._ready import Call, PrebuildReport, Prefetch, WarmupReport, prebuild, warmup
from ._registry import Op

logger = logging.getLogger("kiln")
_PYTHON_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_LEVELS = {"debug": 1, "info": 2, "warning": 3, "error": 4}
_JIT = {"allow": 1, "warn": 2, "forbid": 3}
_CAPTURE_MISSES = {"load": 1, "error": 2}


def _log(level: int, message: str) -> None:
    logger.log(_PYTHON_LEVELS.get(level, logging.WARNING), "%s", message)


def _checks(check: bool | None) -> bool:
    return os.environ.get("KILN_CHECK", "0") not in ("", "0") if check is None else check


class _WithoutOthers(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes what no handler of the program's own gets, now or when it has one later."""

    def emit(self, record: logging.LogRecord) -> None:
        others = [handler for handler in logger.handlers if handler is not self]
        if not others and not (logger.propagate and logging.getLogger().handlers):
            self.stream = sys.stderr  # Which may be another by now.
            super().emit(record)


_without_others = _WithoutOthers()


def _show_launches() -> None:
    """Checks write a line for each launch, at the level of information, and whoever turned them on wants to see it."""
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    logger.addHandler(_without_others)  # Once, however often.


class Launchers(_native.Unique):
    """The launchers of an engine, by op: an attribute each, made when it is first asked for. A launcher takes an op's arguments in the
    op's order, all of `_producers.direct_types`, and works on the current stream of those tensors. Names that begin with two underscores are
    Python's, and no op's here."""

    __slots__ = ("__engine__",)  # Beside the attributes.

    def __init__(self, engine: Engine) -> None:
        self.__engine__ = weakref.ref(engine)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        engine = self.__engine__()
        if engine is None:
            raise InvalidArgumentError(_closed())
        made = _native.call("op_launcher", engine._usable(), name, engine.op(name).workspace)
        self.__dict__[name] = made
        return made


class Engine(_native.Unique):
    """An engine of one's own options; most programs never make one and use the functions of this package, which share one.

    What is left None is as the environment says (KILN_CACHE_DIR and so on, read once, here) or as the default is; include/kiln/kiln.h says
    each in full. Any thread may use an engine. Log lines go to the logger "kiln" from `log_level` on, or to `log`, which is given a level of
    the logging module and the line, from any thread.
    """

    handle: Any = None  # The library's; None before it was made and after it was closed.

    def __init__(
        self,
        *,
        cache_root: _text.Path | None = None,
        layers: Sequence[_text.Path] = (),
        trusted_keys: Sequence[_text.Path] = (),
        cache_max_bytes: int | None = None,
        cache_max_age_seconds: int | None = None,
        cache_group_shared: bool | None = None,
        cache_allow_world_writable: bool | None = None,
        exact_toolchain: bool | None = None,
        jit: Literal["allow", "warn", "forbid"] | None = None,
        nvrtc: _text.Path | None = None,
        driver: _text.Path | None = None,
        compile_worker: _text.Path | None = None,
        compile_in_process: bool | None = None,
        compile_jobs: int | None = None,
        compile_timeout_seconds: int | None = None,
        compile_wait_seconds: int | None = None,
        record: _text.Path | None = None,
        trace: _text.Path | None = None,
        pdl: bool | None = None,
        check: bool | None = None,
        capture_misses: Literal["load", "error"] | None = None,
        log: Callable[[int, str], None] | None = None,
        log_level: Literal["debug", "info", "warning", "error"] | None = None,
    ) -> None:
        self._own: dict[str, Op] = {}
        self._plans: weakref.WeakSet[Plan] = weakref.WeakSet()
        if log is not None and not callable(log):
            raise ArgumentTypeError(f"log is {log!r}; it must take a level and a line")
        _switch("check", check)
        checks = _checks(check)
        if checks and log is None:
            _show_launches()
        options = {
            "cache_root": _text.path("cache_root", cache_root),
            "layers": _text.paths("layers", layers),
            "trusted_keys": _text.paths("trusted_keys", trusted_keys),
            "cache_max_bytes": _count("cache_max_bytes", cache_max_bytes, 64),
            "cache_max_age_seconds": _count("cache_max_age_seconds", cache_max_age_seconds, 64),
            "cache_group_shared": _switch("cache_group_shared", cache_group_shared),
            "cache_allow_world_writable": _switch("cache_allow_world_writable", cache_allow_world_writable),
            "exact_toolchain": _switch("exact_toolchain", exact_toolchain),
            "jit": _choice("jit", jit, _JIT),
            "nvrtc": _text.path("nvrtc", nvrtc),
            "driver": _text.path("driver", driver),
            "compile_worker": _text.path("compile_worker", compile_worker),
            "compile_in_process": _switch("compile_in_process", compile_in_process),
            "compile_jobs": _count("compile_jobs", compile_jobs, 31),
            "compile_timeout_seconds": _count("compile_timeout_seconds", compile_timeout_seconds, 63, -1),
            "compile_wait_seconds": _count("compile_wait_seconds", compile_wait_seconds, 63, -1),
            "record": _text.path("record", record),
            "trace": _text.path("trace", trace),
            "pdl": _switch("pdl", pdl),
            "check": _switch("check", check),
            "capture_misses": _choice("capture_misses", capture_misses, _CAPTURE_MISSES),
            "log_level": _choice("log_level", log_level or ("info" if checks else "warning"), _LEVELS),
        }
        given = {name: value for name, value in options.items() if value is not None}
        self.handle = _native.call("engine_create", json.dumps(given), _log if log is None else _receiver(log))
        self.launchers = Launchers(self)
        _open.add(self)

    def close(self) -> None:
        """Ends compiles under way. Neither the engine nor a plan of it can be used afterwards; kernels that were loaded stay so until the
        process ends. Calls that other threads are in finish, and the last of them ends the engine. One that nobody holds closes itself."""
        handle, self.handle = self.handle, None
        if handle is not None:
            vars(self.launchers).clear()
            for plan in list(self._plans):
                plan.close()
            _native.call("engine_close", handle)

    def __del__(self) -> None:
        # Not closed: another thread may be about to call what it took from here.
        handle, self.handle = self.handle, None
        if handle is not None:
            vars(self.launchers).clear()
            _native.call("engine_release", handle)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _usable(self) -> Any:
        handle = self.handle
        if handle is None:
            raise InvalidArgumentError(_closed())
        return handle

    def op(self, name: str) -> Op:
        """What the registry says of an op, built-in or of this engine's own. UnknownOpError names near ones."""
        if not isinstance(name, str):
            raise ArgumentTypeError(f"an op's name is a str, found {name!r}")
        own = self._own.get(name)
        if own is not None:
            return own
        try:
            return _registry.op(name)
        except KeyError:
            _native.call("op_can_use", self._usable(), _text.printable(name))  # Raises: the library knows what is near.
            raise

    def op_names(self) -> list[str]:
        return json.loads(_native.call("engine_op_names", self._usable()))

    def launch(
        self, name: str, /, *args: Any, stream: Any = None, options: LaunchOptions | None = None, workspace: Any = None, **kwargs: Any
    ) -> Any:
        """Calls an op by name, with the arguments of its function."""
        op = self.op(name)
        values = _signature.bind(op, args, kwargs)
        if stream is None and options is None and workspace is None:
            launcher = None if name.startswith("__") else getattr(self.launchers, name)
            if launcher is not None and _short.launch(op, values, launcher):
                return _signature.results(op, values)
        return _signature.results(op, _calls.launch(self._usable(), op, values, stream, options, workspace))

    def why_not(self, name: str, /, *args: Any, **kwargs: Any) -> str:
        """Why contract, policy or device rule a call out; empty when it can be made. Arguments may be TensorSpec."""
        op = self.op(name)
        values = _signature.bind(op, args, kwargs)
        try:
            return str(_calls.ask("op_can_use", self._usable(), op, values))
        except OutsideContract as reason:
            return str(reason)

    def can_use(self, name: str, /, *args: Any, **kwargs: Any) -> bool:
        """Whether contract, policy and, where there is a driver, the device allow a call. Arguments may be TensorSpec."""
        return not self.why_not(name, *args, **kwargs)

    def workspace_bytes(self, name: str, /, *args: Any, **kwargs: Any) -> int:
        """What `workspace=` must hold for a call; a call without one allocates it."""
        op = self.op(name)
        return _calls.ask("op_workspace_bytes", self._usable(), op, _signature.bind(op, args, kwargs))

    def plan(self, name: str, /, *args: Any, **kwargs: Any) -> Plan:
        """Resolves a call once, for launching it many times: finds or compiles, and loads, what it needs. Arguments may be TensorSpec."""
        op = self.op(name)
        values = _signature.bind(op, args, kwargs)
        plan = Plan(self, op, values, _calls.ask("plan_create", self._usable(), op, values))
        self._plans.add(plan)
        return plan

    def warmup(
        self,
        calls: Iterable[Call] = (),
        *,
        ops: Iterable[str] = (),
        manifest: _text.Path | None = None,
        jobs: int = 0,
        progress: Callable[[int, int, str], None] | None = None,
        strict: bool = True,
    ) -> WarmupReport:
        """Finds or compiles, several at a time, what the calls, every kernel of `ops` for this device's best target, and the manifest's kernels
        need, and loads it into the current context. What cannot be had stops nothing else; at the end it is the first one's exception or,
        without `strict`, in the report's failures. An exception of `progress` ends it early, and is raised here."""
        return warmup(self._usable(), self.op, calls, ops, _text.path("manifest", manifest), jobs, progress, strict)

    def prebuild(
        self,
        targets: Iterable[str],
        *,
        ops: Iterable[str] | None = None,
        jobs: int = 0,
        progress: Callable[[int, int, str], None] | None = None,
        strict: bool = True,
    ) -> PrebuildReport:
        """Compiles every kernel of the ops (names, or globs over names; None: of all) for the targets ("sm_90a") into the cache, and needs no
        GPU: what `kiln prebuild` does, for ops of one's own too. What cannot be had and `progress` are as in a warm-up."""
        return prebuild(self._usable(), targets, ops, jobs, progress, strict)

    def prefetch(self, name: str, /, *args: Any, **kwargs: Any) -> Prefetch:
        """Starts to find or compile what a call needs, on another thread, and loads nothing. Arguments may be TensorSpec."""
        op = self.op(name)
        return Prefetch(_calls.ask("prefetch_start", self._usable(), op, _signature.bind(op, args, kwargs)))

    def stats(self) -> dict[str, int]:
        """Counts since the engine was made: compiles, cache_hits, cache_misses, libraries_loaded, ... (kiln_counters of kiln.h)."""
        return json.loads(_native.call("engine_counters", self._usable()))

    def cache_layers(self) -> list[tuple[str, int]]:
        """What the cache asks, in order, and how often it found what it wanted there: the writable root, then directories and packs."""
        return [(_text.path_told(path), hits) for path, hits in json.loads(_native.call("engine_cache_layers", self._usable()))]

    def device_targets(self) -> list[str]:
        """The targets that the current context's device runs, best first: ["sm_90a", "sm_90"]."""
        return _native.call("engine_device_targets", self._usable()).split(",")

    def unload(self, streams: Iterable[Any] = ()) -> int:
        """Unloads every kernel that this engine alone uses and says how many; see kiln_unload of kiln.h for what the caller sees to."""
        from ._producers import stream_handle

        return _native.call("engine_unload", self._usable(), *(stream_handle(stream) for stream in streams))

    def forget_compile_failures(self) -> None:
        """Has kernels that could not be compiled, each of which is tried once, tried again."""
        _native.call("engine_forget_compile_failures", self._usable())

    def register_op(
        self,
        name: str,
        *,
        args: Sequence[OwnArg],
        kernels: Sequence[Kernel],
        sources: Mapping[str, str | None],
        source_directory: _text.Path | None = None,
        summary: str = "",
        family: str = "own",
        options: Sequence[str] = (),
        workspace_bytes: str | int | None = None,
        min_compute_capability: int = 90,
        pdl: bool = False,
    ) -> Callable[..., Any]:
        """Adds an op with CUDA source of one's own, and returns its function. A source whose text is None is a file of `source_directory`, and
        read with everything that it includes in quotes. See docs/python.md for an example, and kiln.h for what the expressions may hold."""
        folder = _text.path("source_directory", source_directory)
        described, op = describe(
            _own_op_checks.checked(
                OwnOp(name, args, kernels, sources, folder, summary, family, options, workspace_bytes, min_compute_capability, pdl)
            )
        )
        _native.call("register_op", self._usable(), json.dumps(described))
        self._own[name] = op

        def launch(*args: Any, **kwargs: Any) -> Any:
            return self.launch(name, *args, **kwargs)

        launch.__name__ = launch.__qualname__ = name
        _describe.describe_function(launch, op)
        return launch


def _count(what: str, value: int | None, bits: int, least: int = 0) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << bits:
        raise InvalidArgumentError(f"{what} is {value!r}; it must be a whole number, at least {least} and below 2**{bits}")
    return value


def _switch(what: str, value: bool | None) -> int | None:
    if value is not None and not isinstance(value, bool):
        raise InvalidArgumentError(f"{what} is {value!r}; it must be True, False or None")
    return None if value is None else ON if value else OFF


def _choice(what: str, value: str | None, choices: dict[str, int]) -> int | None:
    if value is not None and value not in choices:
        raise InvalidArgumentError(f"{what} is {value!r}; it must be one of {', '.join(choices)}")
    return None if value is None else choices[value]


def _receiver(log: Callable[[int, str], None]) -> Callable[[int, str], None]:
    return lambda level, message: log(_PYTHON_LEVELS.get(level, logging.WARNING), message)


_open: weakref.WeakSet[Engine] = weakref.WeakSet()
_process_ends = False


def _closed() -> str:
    return "the engine was closed" + (", since the process is ending" if _process_ends else "")


@atexit.register
def _close_all() -> None:
    # Before the interpreter goes: an engine's threads may be about to log, or to let go of what receives their lines.
    global _process_ends
    _process_ends = True
    try:
        for engine in list(_open):
            engine.close()
    finally:
        vars(fast).clear()
        _native.end()


class _Default:
    """The engine that this package's functions share, made when one of them is first called."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.engine: Engine | None = None


_default = _Default()


def _after_fork() -> None:
    # Whoever held a lock is not there to give it back.
    _default.lock = threading.Lock()
    _native.renew_lock()
    _spec.renew_lock()


os.register_at_fork(after_in_child=_after_fork)


def default_engine() -> Engine:
    """The engine that this package's functions share; made with the default options when it is first needed."""
    engine = _default.engine
    if engine is None:
        with _default.lock:
            engine = _default.engine
            if engine is None:
                engine = _default.engine = Engine()
                vars(fast).clear()
    return engine


def set_default_engine(engine: Engine | None) -> None:
    """Has this package's functions use another engine from now on; None: one of the default options, made when it is needed."""
    if engine is not None:
        if not isinstance(engine, Engine):
            raise ArgumentTypeError(f"the default engine must be a kiln.Engine or None, found a {type(engine).__name__}")
        engine._usable()
    with _default.lock:
        _default.engine = engine
        vars(fast).clear()


class Fast:
    """The launchers of the default engine, as the functions of _ops call them."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        engine = default_engine()
        made = getattr(engine.launchers, name)
        self.__dict__[name] = made
        if _default.engine is not engine:  # Replaced meanwhile, and so was what was forgotten then.
            self.__dict__.pop(name, None)
        return made


fast = Fast()


def broke_off(name: str, values: Sequence[Any], error: Exception) -> bool:
    return _short.broke_off(_registry.op(name), values, error)


def call(name: str, values: Sequence[Any], stream: Any, options: LaunchOptions | None, workspace: Any) -> Any:
    """What the functions of _ops do where their tensors cannot take the short way. The values stand in the op's order."""
    op = _registry.op(name)
    engine = default_engine()  # Held until the call is over.
    return _signature.results(op, _calls.launch(engine._usable(), op, values, stream, options, workspace))
