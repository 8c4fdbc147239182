"""A call resolved once, for launching it many times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _calls, _native, _producers, _short, _signature
from ._errors import InvalidArgumentError
from ._launch_options import LaunchOptions
from ._registry import Op

if TYPE_CHECKING:
    from ._engine import Engine


class Plan(_native.Unique):
    """Launches with nothing left to look up: it packs parameters and makes one driver call for each kernel.

    Only pointers, strides and scalars may differ from those that it was made with, and which optional arguments are there may not. That is
    checked where the engine checks (Engine(check=True), KILN_CHECK=1) and trusted otherwise.
    """

    def __init__(self, engine: Engine, op: Op, values: Sequence[Any], handle: Any) -> None:
        self.op = op
        self._engine = engine  # Which must live as long.
        self._handle = handle
        self._count = len(values)
        self._lazy = [place for place, arg in enumerate(op.args) if arg.may_be_lazy]
        self._launcher = _native.call("plan_launcher", handle)

    @property
    def workspace_bytes(self) -> int:
        """What a launch allocates where `workspace=` does not give it."""
        return _native.call("plan_workspace_bytes", self._usable())

    def launch(self, *values: Any) -> None:
        """The op's arguments in the op's own order (its `args`), None for what is left out; on the tensors' current stream. The short way:
        everything is to be given, and nothing is returned."""
        direct = _producers.direct_types
        for value in values:
            if value.__class__ not in direct:
                _calls.launch_plan(self._usable(), self.op, self._all(values), None, None, None)
                return
        if len(values) != self._count:
            self._all(values)
        for place in self._lazy:
            if not _producers.is_plain(values[place]):
                _calls.launch_plan(self._usable(), self.op, values, None, None, None)
                return
        self._launcher(*values)

    def __call__(self, *args: Any, stream: Any = None, options: LaunchOptions | None = None, workspace: Any = None, **kwargs: Any) -> Any:
        """With the arguments of the op's function."""
        values = _signature.bind(self.op, args, kwargs)
        if stream is None and options is None and workspace is None and _short.launch(self.op, values, self._launcher):
            return _signature.results(self.op, values)
        return _signature.results(self.op, _calls.launch_plan(self._usable(), self.op, values, stream, options, workspace))

    def _all(self, values: Sequence[Any]) -> Sequence[Any]:
        if len(values) != self._count:
            names = ", ".join(arg.name for arg in self.op.args)
            raise InvalidArgumentError(f"{self.op.name}: a plan's launch takes {self._count} arguments ({names}), and {len(values)} came")
        return values

    def _usable(self) -> Any:
        handle = self._handle
        if handle is None:
            raise InvalidArgumentError(f"{self.op.name}: the plan was closed, or its engine was")
        return handle

    def _closed(self, *_: Any) -> None:
        self._usable()

    def close(self) -> None:
        """Launches that other threads are in finish."""
        self._launcher = self._closed
        self._handle = None
