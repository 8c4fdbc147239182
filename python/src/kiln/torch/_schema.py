"""Schemas of the ops for PyTorch's dispatcher, from the registry's metadata. Needs no torch.

Each op has one overload that writes into the caller's tensors and returns nothing, `kiln::rmsnorm`. Where the shapes of outputs follow from
the inputs there is one more that allocates and returns those, `kiln::rmsnorm.functional`; in all else it takes what the first one takes.

torch 2.11's compiler cannot lower an operator that writes and has a tensor of complex numbers or of e8m0 among its arguments. Such an op has a
third overload, `kiln::rope_inplace.plain`, which also takes the former as a last axis of two and knows the latter as bytes; a trace of the
first overload becomes one of this.

Arguments stand as in the op's Python function, inputs first and outputs after them, and may be given by position up to the first optional
one with a required one after it: PyTorch allows no such order, so from there on they go by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import _shapes, _signature
from .._registry import Arg, Op

FUNCTIONAL = "functional"
PLAIN = "plain"
_SCALARS = {"i32": "SymInt", "i64": "SymInt", "f32": "float", "bool": "bool"}


@dataclass(frozen=True)
class Overload:
    """One schema: `positional` and `by_name` are its arguments, `returned` the outputs that it allocates."""

    op: Op
    name: str  # "rmsnorm", "rmsnorm.functional"
    positional: tuple[Arg, ...]
    by_name: tuple[Arg, ...]
    returned: tuple[Arg, ...]

    @property
    def args(self) -> tuple[Arg, ...]:
        return self.positional + self.by_name

    @property
    def schema(self) -> str:
        """As torch.library.Library.define takes it."""
        letters = {arg.name: chr(ord("a") + place) for place, arg in enumerate(arg for arg in self.args if arg.is_mutated)}
        texts = [_declaration(arg, letters.get(arg.name)) for arg in self.positional]
        if self.by_name:
            texts += ["*", *(_declaration(arg, letters.get(arg.name)) for arg in self.by_name)]
        returns = ["Tensor"] * len(self.returned)
        return f"{self.name}({', '.join(texts)}) -> {returns[0] if len(returns) == 1 else '(' + ', '.join(returns) + ')'}"


def _declaration(arg: Arg, letter: str | None) -> str:
    kind = _SCALARS[arg.scalar] if arg.scalar is not None else "Tensor" if letter is None else f"Tensor({letter}!)"
    return f"{kind}? {arg.name}=None" if arg.optional else f"{kind} {arg.name}"


def _overload(op: Op, name: str, args: Sequence[Arg], returned: tuple[Arg, ...]) -> Overload:
    required = [place for place, arg in enumerate(args) if not arg.optional]
    optional = [place for place, arg in enumerate(args) if arg.optional]
    split = len(args)
    if required and optional and optional[0] < required[-1]:
        split = optional[0]
    return Overload(op, name, tuple(args[:split]), tuple(args[split:]), returned)


def overloads(op: Op) -> tuple[Overload, ...]:
    """The op's schemas, the one that allocates nothing first."""
    args = [parameter.arg for parameter in _signature.parameters(op)]
    found = [_overload(op, op.name, args, ())]
    returned = _shapes.allocatable(op)
    if returned:
        found.append(_overload(op, f"{op.name}.{FUNCTIONAL}", [arg for arg in args if arg not in returned], returned))
    if any(is_disguised(arg) for arg in args):
        found.append(_overload(op, f"{op.name}.{PLAIN}", args, ()))
    return tuple(found)


def is_disguised(arg: Arg) -> bool:
    """Whether the compiler must see another type in place of the argument's."""
    return "complex64" in arg.dtypes or "e8m0" in arg.dtypes
