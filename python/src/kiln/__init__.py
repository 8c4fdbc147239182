"""Kiln: CUDA kernels compiled at run time, kept in a cache, and called on the tensors of any library with DLPack.

Every op of the registry is a function here: kiln.rmsnorm(x, w, eps). Importing this needs no GPU, driver, NVRTC or torch, and writes nothing;
the engine that the functions share is made when one is first called. docs/python.md has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _ops, _text, _tracing
from ._engine import Engine, default_engine, set_default_engine
from ._errors import (
    ArgumentTypeError,
    CancelledError,
    CompileFailedError,
    CompileForbiddenError,
    CompilerLostError,
    CompilerUnavailableError,
    DriverError,
    DriverUnavailableError,
    DuplicateOpError,
    Error,
    FileError,
    InvalidArgumentError,
    NotLoadedError,
    NotStoredError,
    UnknownOpError,
    UnsupportedTargetError,
)
from ._launch_options import LaunchOptions
from ._ops import *  # noqa: F403 (every op of the registry, by name)
from ._own_op import Kernel, OwnArg, Param, ScalarArg, TensorArg
from ._plan import Plan
from ._ready import Call, Failure, PrebuildReport, Prefetch, WarmupReport
from ._spec import TensorSpec
from ._version import __version__

_tracing.leave_alone()


def launch(name: str, /, *args: Any, stream: Any = None, options: LaunchOptions | None = None, workspace: Any = None, **kwargs: Any) -> Any:
    """Calls an op by name, with the arguments of its function. Serves ops of register_op too."""
    return default_engine().launch(name, *args, stream=stream, options=options, workspace=workspace, **kwargs)


def can_use(name: str, /, *args: Any, **kwargs: Any) -> bool:
    """Whether contract, policy and, where there is a driver, the device allow a call. Arguments may be TensorSpec."""
    return default_engine().can_use(name, *args, **kwargs)


def why_not(name: str, /, *args: Any, **kwargs: Any) -> str:
    """Why contract, policy or device rule a call out; empty when it can be made."""
    return default_engine().why_not(name, *args, **kwargs)


def workspace_bytes(name: str, /, *args: Any, **kwargs: Any) -> int:
    """What `workspace=` must hold for a call; a call without one allocates it."""
    return default_engine().workspace_bytes(name, *args, **kwargs)


def plan(name: str, /, *args: Any, **kwargs: Any) -> Plan:
    """Resolves a call once, for launching it many times. Arguments may be TensorSpec."""
    return default_engine().plan(name, *args, **kwargs)


def warmup(
    calls: Iterable[Call] = (),
    *,
    ops: Iterable[str] = (),
    manifest: _text.Path | None = None,
    jobs: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
    strict: bool = True,
) -> WarmupReport:
    """Finds or compiles, several at a time, what these calls need, or every call of `ops`, and loads it; later ones neither compile nor load."""
    return default_engine().warmup(calls, ops=ops, manifest=manifest, jobs=jobs, progress=progress, strict=strict)


def prebuild(
    targets: Iterable[str],
    *,
    ops: Iterable[str] | None = None,
    jobs: int = 0,
    progress: Callable[[int, int, str], None] | None = None,
    strict: bool = True,
) -> PrebuildReport:
    """Compiles every kernel of the ops (names or globs; None: of all) for the targets ("sm_90a") into the cache, and needs no GPU."""
    return default_engine().prebuild(targets, ops=ops, jobs=jobs, progress=progress, strict=strict)


def prefetch(name: str, /, *args: Any, **kwargs: Any) -> Prefetch:
    """Starts to find or compile what a call needs, on another thread, and loads nothing."""
    return default_engine().prefetch(name, *args, **kwargs)


def stats() -> dict[str, int]:
    """Counts of the shared engine since it was made: compiles, cache_hits, cache_misses, libraries_loaded, ..."""
    return default_engine().stats()


def register_op(
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
    """Adds an op with CUDA source of one's own to the shared engine, and returns its function."""
    return default_engine().register_op(
        name,
        args=args,
        kernels=kernels,
        sources=sources,
        source_directory=source_directory,
        summary=summary,
        family=family,
        options=options,
        workspace_bytes=workspace_bytes,
        min_compute_capability=min_compute_capability,
        pdl=pdl,
    )


__all__ = [
    "ArgumentTypeError",
    "Call",
    "CancelledError",
    "CompileFailedError",
    "CompileForbiddenError",
    "CompilerLostError",
    "CompilerUnavailableError",
    "DriverError",
    "DriverUnavailableError",
    "DuplicateOpError",
    "Engine",
    "Error",
    "Failure",
    "FileError",
    "InvalidArgumentError",
    "Kernel",
    "LaunchOptions",
    "NotLoadedError",
    "NotStoredError",
    "OwnArg",
    "Param",
    "Plan",
    "PrebuildReport",
    "Prefetch",
    "ScalarArg",
    "TensorArg",
    "TensorSpec",
    "UnknownOpError",
    "UnsupportedTargetError",
    "WarmupReport",
    "__version__",
    "can_use",
    "default_engine",
    "launch",
    "plan",
    "prebuild",
    "prefetch",
    "register_op",
    "set_default_engine",
    "stats",
    "warmup",
    "why_not",
    "workspace_bytes",
    *_ops.__all__,
]
