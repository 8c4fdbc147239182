"""A call resolved once, for launching it many times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _calls, _native, _producers, _shapes, _short, _signature
from ._dtypes import dtype_name
from ._errors import Error, InvalidArgumentError
from ._launch_options import LaunchOptions
from ._registry import Op

if TYPE_CHECKING:
    from ._engine import Engine


class _Makes:
    """What a plan's calls must agree with where they leave outputs out: an output that is made as its inputs say would not be as the plan has it."""

    def __init__(self, op: Op, values: Sequence[Any]) -> None:
        self.op = op
        place_of = _signature.places(op)
        self.outputs = [place_of[arg.name] for arg in _shapes.allocatable(op)]
        self.shapes = {place: _shape(values[place]) for place in (place_of[arg.name] for arg in _shapes.shape_sources(op))}
        names = {_shapes.dtype_source(op, arg) for arg in _shapes.allocatable(op)}
        self.dtypes = {place_of[name]: _dtype(values[place_of[name]]) for name in names if name is not None}

    def check(self, values: Sequence[Any]) -> None:
        for place in self.outputs:
            if values[place] is None:
                break
        else:
            return
        for place, shape in self.shapes.items():
            if getattr(values[place], "shape", None) != shape:  # Else that was quick.
                self._want(place, shape, _shape(values[place]))
        for place, dtype in self.dtypes.items():
            self._want(place, dtype, _dtype(values[place]))

    def _want(self, place: int, planned: Any, found: Any) -> None:
        if found is None or planned is None or planned == found:  # What says neither is refused where the output is made.
            return
        name, made = self.op.args[place].name, " and ".join(self.op.args[place].name for place in self.outputs)
        raise InvalidArgumentError(
            f'{self.op.name}: argument "{name}": the plan is for {_shown(planned)}, found {_shown(found)}: make a plan for that (where {made} '
            "is passed, the plan trusts its arguments)"
        )


def _shown(shape_or_dtype: tuple[int, ...] | str) -> str:
    return shape_or_dtype if isinstance(shape_or_dtype, str) else str(list(shape_or_dtype))


def _shape(tensor: Any) -> tuple[int, ...] | None:
    try:
        return tuple(_producers.producer_of(tensor).shape_of(tensor))
    except Error:
        return None


def _dtype(tensor: Any) -> str | None:
    try:
        return dtype_name(_producers.producer_of(tensor).dtype_of(tensor))
    except (Error, ValueError):
        return None


class Plan(_native.Unique):
    """Launches with nothing left to look up: it packs parameters and makes one driver call for each kernel.

    Only pointers, strides and scalars may differ from those that it was made with, and which optional arguments are there may not. That is
    checked where the engine checks (Engine(check=True), KILN_CHECK=1) and trusted otherwise; but where an output is left out, the inputs
    from which its shape and dtype follow must have those of the plan.
    """

    def __init__(self, engine: Engine, op: Op, values: Sequence[Any], handle: Any) -> None:
        self.op = op
        self._engine = engine  # Which must live as long.
        self._handle = handle
        self._count = len(values)
        self._lazy = [place for place, arg in enumerate(op.args) if arg.may_be_lazy]
        self._launcher = _native.call("plan_launcher", handle)
        self._makes = _Makes(op, values)

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
        self._makes.check(values)
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
