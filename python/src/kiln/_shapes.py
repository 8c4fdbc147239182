"""Shapes and dtypes of an op's outputs, from those of its inputs.

Extents may be anything that counts: whole numbers, or the symbolic ones that a tracer has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._extents import evaluate, symbols_of, where
from ._registry import Arg, Dim, Op, per_op

MOST_EXTENT = 1 << 62  # What no tensor reaches.


def bound_symbols(args: Sequence[Arg]) -> frozenset[str]:
    """The symbols that these tensors' shapes give a value."""
    return frozenset(dim.symbol for arg in args if arg.is_tensor for dim in arg.shape if dim.kind in ("symbol", "leading"))


def _is_bound(dim: Dim, symbols: frozenset[str], leading: frozenset[str]) -> bool:
    if dim.kind == "leading":
        return dim.symbol in leading
    if dim.kind == "derived":
        return symbols_of(dim.text) <= symbols
    return dim.kind == "fixed" or dim.symbol in symbols


@per_op
def required(op: Op) -> tuple[Arg, ...]:
    """The tensors that every call brings."""
    return tuple(arg for arg in op.inputs if arg.is_tensor and not arg.optional)


@per_op
def allocatable(op: Op) -> tuple[Arg, ...]:
    """The outputs whose shapes follow from the required inputs, so that a caller may leave them out. An optional output is none of them:
    left out, it is not computed."""
    symbols = bound_symbols(required(op))
    leading = frozenset(dim.symbol for arg in required(op) for dim in arg.shape if dim.kind == "leading")
    return tuple(arg for arg in op.outputs if not arg.optional and all(_is_bound(dim, symbols, leading) for dim in arg.shape))


def _given_by(dim: Dim) -> frozenset[str]:
    """What an axis of a tensor that is there says: an extent's value; of leading axes, which they are, too."""
    return frozenset({"leading": (dim.symbol, dim.text), "symbol": (dim.symbol,)}.get(dim.kind, ()))


def _wanted_by(dim: Dim) -> frozenset[str]:
    if dim.kind == "derived":
        return symbols_of(dim.text)
    return frozenset() if dim.kind == "fixed" else frozenset((dim.text,))


@per_op
def shape_sources(op: Op) -> tuple[Arg, ...]:
    """The tensors, as few as will do, from whose shapes those of `allocatable` follow."""
    wanted = frozenset().union(*(_wanted_by(dim) for arg in allocatable(op) for dim in arg.shape))
    sources = []
    for arg in required(op):
        given = frozenset().union(*(_given_by(dim) for dim in arg.shape))
        if given & wanted:
            sources.append(arg)
            wanted -= given
    return tuple(sources)


def bind(args: Sequence[Arg], shapes: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], dict[str, tuple[Any, ...]]]:
    """Symbols, and the axes behind each leading one, from the shapes of the tensors that are there. ValueError names an argument whose rank
    is wrong; extents that contradict each other are left to the launch."""
    symbols: dict[str, Any] = {}
    leading: dict[str, tuple[Any, ...]] = {}
    for arg in args:
        if not arg.is_tensor or arg.name not in shapes:
            continue
        shape, dims = tuple(shapes[arg.name]), arg.shape
        if dims and dims[0].kind == "leading" and len(shape) >= len(dims) - 1:
            first = len(shape) - len(dims) + 1
            leading.setdefault(dims[0].symbol, shape[:first])
            product: Any = 1
            for extent in shape[:first]:
                product = product * extent
            symbols.setdefault(dims[0].symbol, product)
            shape, dims = shape[first:], dims[1:]
        if len(shape) != len(dims):
            expected = ", ".join(dim.text for dim in arg.shape)
            raise ValueError(f'argument "{arg.name}" must have the shape [{expected}], found {len(shapes[arg.name])} axes')
        for dim, extent in zip(dims, shape):
            if dim.kind == "symbol":
                symbols.setdefault(dim.symbol, extent)
    return symbols, leading


def _expected(dim: Dim, symbols: Mapping[str, Any]) -> Any:
    """The extent of an axis; None where symbols are missing, or one of these is a tracer's: nothing is to be asked of that."""
    if dim.kind == "fixed":
        return dim.value
    needed = symbols_of(dim.text) if dim.kind == "derived" else {dim.symbol}
    if any(not isinstance(symbols.get(name), int) for name in needed):
        return None
    return evaluate(dim.text, symbols) if dim.kind == "derived" else symbols[dim.symbol]


def check(args: Sequence[Arg], shapes: Mapping[str, Sequence[Any]]) -> None:
    """ValueError names an argument whose rank is wrong, or an extent of it, as far as extents are known. A launch says it better, but not
    before it is made."""
    symbols, _ = bind(args, shapes)
    for arg in args:
        if not arg.is_tensor or arg.name not in shapes:
            continue
        shape, dims = tuple(shapes[arg.name]), arg.shape
        if dims and dims[0].kind == "leading":
            shape, dims = shape[len(shape) - len(dims) + 1 :], dims[1:]
        for dim, extent in zip(dims, shape):
            expected = _expected(dim, symbols)
            if expected is not None and isinstance(extent, int) and extent != expected:
                written = ", ".join(dim.text for dim in arg.shape)
                found = ", ".join(str(extent) for extent in shapes[arg.name])
                where = "" if dim.kind == "fixed" else f", where {dim.text} is {expected}"
                raise ValueError(f'argument "{arg.name}" must have the shape [{written}], found [{found}]{where}')


def _extent(arg: Arg, dim: Dim, symbols: Mapping[str, Any]) -> Any:
    if dim.kind == "fixed":
        return dim.value
    if dim.kind == "symbol":
        return symbols[dim.symbol]
    try:
        extent = evaluate(dim.text, symbols)
    except ValueError as error:
        raise ValueError(f'argument "{arg.name}": {error}') from None
    if isinstance(extent, int) and not 0 <= extent < MOST_EXTENT:
        raise ValueError(f'argument "{arg.name}": {dim.text} is {extent}{where(dim.text, symbols)}, and no extent of a tensor is that')
    return extent


def output_shape(arg: Arg, symbols: Mapping[str, Any], leading: Mapping[str, tuple[Any, ...]]) -> tuple[Any, ...]:
    """ValueError names an output that can have no shape."""
    shape: list[Any] = []
    for dim in arg.shape:
        shape.extend(leading[dim.symbol] if dim.kind == "leading" else (_extent(arg, dim, symbols),))
    return tuple(shape)


def output_shapes(op: Op, shapes: Mapping[str, Sequence[Any]]) -> dict[str, tuple[Any, ...]]:
    """The shape of each output of `allocatable`, from the shapes of the inputs by name."""
    symbols, leading = bind(op.inputs, shapes)
    return {arg.name: output_shape(arg, symbols, leading) for arg in allocatable(op)}


def dtype_source(op: Op, output: Arg) -> str | None:
    """The required input whose dtype an allocated output takes: the first that allows the same ones. None: it has the first of its own."""
    return _dtype_sources(op)[output.name]


@per_op
def _dtype_sources(op: Op) -> dict[str, str | None]:
    return {
        output.name: next((arg.name for arg in required(op) if len(output.dtypes) > 1 and set(arg.dtypes) == set(output.dtypes)), None)
        for output in op.outputs
    }


@per_op
def sources(op: Op) -> tuple[Arg, ...]:
    """The tensors that outputs are made from: those of `shape_sources`, and then what else says a dtype or a device."""
    found = list(shape_sources(op))
    types = {dtype_source(op, arg) for arg in allocatable(op)}
    found += [arg for arg in required(op) if arg.name in types and arg not in found]
    if all(arg.host_memory for arg in found):
        found += [arg for arg in required(op) if not arg.host_memory][:1]
    return tuple(found)
