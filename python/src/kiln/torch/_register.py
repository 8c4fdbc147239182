"""Schemas, kernels and fake implementations, handed to torch.library."""

from __future__ import annotations

import keyword
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import _outputs, _shapes
from .._dtypes import DTYPES
from .._engine import Engine, fast
from .._errors import InvalidArgumentError
from .._producers import host_view
from .._registry import Op
from ._schema import PLAIN, Overload, is_disguised, overloads

# Strides are part of a call: outputs may be slices of padded buffers, and rows of inputs may lie apart.
_TAGS = (torch.Tag.pt2_compliant_tag, getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order))

_library = torch.library.Library("kiln", "FRAGMENT")


@dataclass
class Owner:
    """Whose kernel an operator launches. engine: None for a built-in op, which the default engine of the moment launches."""

    op: Op
    engine: weakref.ref[Engine] | None

    def launchers(self) -> Any:
        """Of the engine that registered an op of its own."""
        engine = None if self.engine is None else self.engine()
        if engine is None:
            raise InvalidArgumentError(
                f"{self.op.name}: the engine whose op torch.ops.kiln.{self.op.name} is was dropped; register it anew"
            )
        return engine.launchers


_registered: dict[str, Owner] = {}


def _by_name(overload: Overload, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that are there; PyTorch leaves out those that have their default."""
    return {**dict(zip((arg.name for arg in overload.positional), given)), **named}


def _allocator(overload: Overload) -> Callable[[Mapping[str, Any]], list[torch.Tensor]]:
    """A function of the arguments by name that makes the outputs in a trace: of fake tensors, and with symbolic extents."""
    op = overload.op
    required = _shapes.required(op)
    names = [arg.name for arg in required]
    on_device = next(arg.name for arg in required if not arg.host_memory)
    sources = [_shapes.dtype_source(op, arg) for arg in overload.returned]
    dtypes = [getattr(torch, DTYPES[arg.dtypes[0]].torch) for arg in overload.returned]

    def allocate(values: Mapping[str, Any]) -> list[torch.Tensor]:
        try:
            shapes = _shapes.output_shapes(op, {name: values[name].shape for name in names}).values()
        except ValueError as error:  # A wrong rank.
            raise InvalidArgumentError(f"{op.name}: {error}") from None
        make = values[on_device].new_empty
        return [
            make(shape, dtype=dtype if source is None else values[source].dtype) for shape, source, dtype in zip(shapes, sources, dtypes)
        ]

    return allocate


def _writing(overload: Overload, launch: Callable[..., None]) -> Callable[..., None]:
    """The kernel of the overload that writes into the caller's tensors, for a launch by position."""
    order = [arg.name for arg in overload.op.args]
    if order == [arg.name for arg in overload.positional]:
        return launch

    def kernel(*given: Any, **named: Any) -> None:
        launch(*map(_by_name(overload, given, named).get, order))

    return kernel


def _allocating(overload: Overload, launch: Callable[..., None]) -> Callable[..., Any]:
    make, missing = _outputs.maker(overload.op), (None,) * len(overload.returned)
    names = [arg.name for arg in overload.args + overload.returned]
    places = [names.index(arg.name) for arg in overload.op.args]
    sources = [names.index(arg.name) for arg in _shapes.sources(overload.op)]
    single = len(missing) == 1

    def kernel(*given: Any) -> Any:
        made = make(missing, *[given[place] for place in sources])
        values = (*given, *made)
        launch(*[values[place] for place in places])
        return made[0] if single else tuple(made)

    def kernel_by_name(*given: Any, **named: Any) -> Any:
        return kernel(*map(_by_name(overload, given, named).get, names[: len(overload.args)]))

    # Without an optional argument, all come, and by position.
    return kernel_by_name if any(arg.optional for arg in overload.args) else kernel


def _checker(overload: Overload) -> Callable[[Mapping[str, Any]], None]:
    """Looks at what tensors will be like, so that a trace says what the launch would say."""
    op = overload.op
    tensors = [arg for arg in overload.args if arg.is_tensor]
    allowed = {arg.name: [getattr(torch, DTYPES[dtype].torch) for dtype in arg.dtypes] for arg in tensors}

    def check(values: Mapping[str, Any]) -> None:
        given = {arg.name: values[arg.name] for arg in tensors if values.get(arg.name) is not None}
        for name, tensor in given.items():
            if tensor.dtype not in allowed[name]:
                dtypes = " or ".join(op.arg(name).dtypes)
                raise InvalidArgumentError(f'{op.name}: argument "{name}" must be of {dtypes}, found {tensor.dtype}')
        try:
            _shapes.check(op.args, {name: tensor.shape for name, tensor in given.items()})
        except ValueError as error:
            raise InvalidArgumentError(f"{op.name}: {error}") from None

    return check


def _fake(overload: Overload) -> Callable[..., Any]:
    if overload.name.endswith("." + PLAIN):  # Of which only traces of the first overload are made.
        return lambda *given, **named: None
    check = _checker(overload)
    allocate = _allocator(overload) if overload.returned else None

    def fake(*given: Any, **named: Any) -> Any:
        values = _by_name(overload, given, named)
        check(values)
        if allocate is None:
            return None
        made = allocate(values)
        return made[0] if len(made) == 1 else tuple(made)

    return fake


def _undisguised(op: Op, launch: Callable[..., None]) -> Callable[..., None]:
    """A launch that also takes complex numbers as pairs."""
    places = [place for place, arg in enumerate(op.args) if "complex64" in arg.dtypes]

    def plain(*given: Any) -> None:
        values = list(given)
        for place in places:
            if values[place] is not None and not values[place].is_complex():
                values[place] = torch.view_as_complex(values[place])
        launch(*values)

    return plain if places else launch


def _decomposition(overload: Overload) -> Callable[..., None]:
    """What a trace of the op's first overload becomes: one of its plain overload."""
    disguised = [arg for arg in overload.args if is_disguised(arg)]
    plain = getattr(getattr(torch.ops.kiln, overload.op.name), PLAIN)

    def trace(*given: Any, **named: Any) -> None:
        values = _by_name(overload, given, named)
        written = []
        for arg in disguised:
            tensor = values.get(arg.name)
            if tensor is None or not (tensor.is_complex() or tensor.dtype == torch.float8_e8m0fnu):
                continue
            seen = torch.view_as_real(tensor) if tensor.is_complex() else tensor.view(torch.uint8)
            values[arg.name] = seen
            if arg.is_mutated:
                # Not even the tensor behind a view may be of such a type.
                values[arg.name] = torch.empty_like(seen)
                written.append((seen, values[arg.name]))
        plain(**values)
        for seen, made in written:
            seen.copy_(made)

    return trace


def _composition(overload: Overload) -> Callable[..., Any]:
    """What a trace of the overload that allocates becomes: one of the op's first, which writes."""
    returned = [arg.name for arg in overload.returned]
    allocate = _allocator(overload)
    writing = getattr(torch.ops.kiln, overload.op.name)

    def trace(*given: Any, **named: Any) -> Any:
        values = _by_name(overload, given, named)
        made = allocate(values)
        writing(**values, **dict(zip(returned, made)))
        return made[0] if len(made) == 1 else tuple(made)

    return trace


def implement(op: Op, launch: Callable[..., None], key: str, library: torch.library.Library | None = None) -> None:
    """Gives both forms of a registered op their kernels for a dispatch key. `launch` takes the op's arguments by position, in its order;
    what is left out, or None, is absent."""
    for overload in overloads(op):
        kernel = _allocating(overload, launch) if overload.returned else _writing(overload, launch)
        if overload.name.endswith("." + PLAIN):
            kernel = _writing(overload, _undisguised(op, launch))
        (library or _library).impl(overload.name, kernel, key)


def _launcher(op: Op, owner: Owner) -> Callable[..., None]:
    """The owner's launcher, which is made at the first call, and may be another's later."""
    name = op.name
    in_host_memory = [place for place, arg in enumerate(op.args) if arg.host_memory]

    def launch(*values: Any) -> None:
        getattr(fast, name)(*values)

    def launch_own(*values: Any) -> None:
        getattr(owner.launchers(), name)(*values)

    chosen = launch if owner.engine is None else launch_own

    def launch_with_host_memory(*values: Any) -> None:
        seen = list(values)
        for place in in_host_memory:
            seen[place] = host_view(seen[place])
        chosen(*seen)

    return launch_with_host_memory if in_host_memory else chosen


def _check_names(op: Op) -> None:
    if op.name.startswith("__"):
        raise InvalidArgumentError(
            f"{op.name}: a name that begins with two underscores is Python's own, and no operator's: give the op another"
        )
    for what, name in (("op", op.name), *(("argument", arg.name) for arg in op.args)):
        if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
            raise InvalidArgumentError(f"{op.name}: PyTorch takes no {what} called {name!r}, which is no identifier of Python's")


def _again(op: Op, known: Owner, engine: Engine) -> None:
    """The operator of an engine that is there no longer becomes another's. No operator is of two at once."""
    owner = None if known.engine is None else known.engine()
    if owner is engine:
        return
    if owner is not None and owner.handle is not None:
        raise InvalidArgumentError(
            f"torch.ops.kiln.{op.name} is the op of another engine, which is open, and there is one operator of a name: close that engine, or "
            "give the op another name"
        )
    if known.op.args != op.args:
        raise InvalidArgumentError(f"torch.ops.kiln.{op.name} has other arguments already: an operator stays what it was first")
    known.engine = weakref.ref(engine)


def register(op: Op, engine: Engine | None = None) -> None:
    """Makes an op a PyTorch operator: a built-in one, of whichever engine is the default one, or an engine's own. Once is enough, and a second
    time does nothing."""
    if op.name in _registered:
        if engine is not None:
            _again(op, _registered[op.name], engine)
        return
    _check_names(op)
    owner = Owner(op, None if engine is None else weakref.ref(engine))
    forms = overloads(op)
    for overload in forms:
        _library.define(overload.schema, tags=_TAGS)
        torch.library.register_fake(f"kiln::{overload.name}", _fake(overload), lib=_library)
    # Of any device: what lies on none that a kernel can reach, the library refuses by the argument's name.
    implement(op, _launcher(op, owner), "CompositeExplicitAutograd")
    if any(is_disguised(arg) for arg in op.args):
        _library.impl(forms[0].name, _decomposition(forms[0]), "CompositeImplicitAutograd")
    for overload in forms:
        # torch 2.11's compiler stumbles where it takes what is returned out of an operator that writes, and nothing to write was given.
        if overload.returned and any(arg.is_mutated for arg in overload.args):
            _library.impl(overload.name, _composition(overload), "CompositeImplicitAutograd")
    _registered[op.name] = owner
