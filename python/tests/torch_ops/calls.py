"""From a drawn call to the arguments of a function or an operator."""

import dataclasses

import torch
from compare import WHOLE, difference
from expected import outputs_of
from inputs import GROUPS, Draw

from kiln import _registry, _shapes

GUARD = 256  # Bytes before and behind an output.
POISON = 0xA5


class Outputs:
    """Memory of a call's outputs, with guards around and gaps in it."""

    def __init__(self, op, call, device):
        self.rooms, self.tensors = {}, {}
        for name, (shape, dtype) in outputs_of(op, call).items():
            gap = call.gaps.get(name, 0)
            inner = shape[1:].numel() if isinstance(shape, torch.Size) else _product(shape[1:])
            rows = shape[0] if shape else 1
            count = rows * (inner + gap)
            room = torch.empty(2 * GUARD + count * dtype.itemsize, dtype=torch.uint8, device=device)
            body = room[GUARD : GUARD + count * dtype.itemsize].view(dtype)
            self.rooms[name] = room
            self.tensors[name] = body.view(rows, inner + gap)[:, :inner].unflatten(1, shape[1:]) if gap else body.view(shape)

    def poison(self, byte=POISON):
        for room in self.rooms.values():
            room.fill_(byte)

    def difference(self, name, want, byte=POISON):
        """Empty when the output holds these values and the memory around it what it was poisoned with."""
        written = difference(name, self.tensors[name], want)
        if written:
            return written
        room, tensor = self.rooms[name].clone(), self.tensors[name]
        body = room[GUARD : len(room) - GUARD].view(WHOLE[tensor.element_size()])
        body.as_strided(tensor.shape, tensor.stride()).view(torch.uint8).fill_(byte)
        return "" if (room == byte).all() else f"memory around {name} was written"


def _product(extents):
    out = 1
    for extent in extents:
        out *= extent
    return out


def fresh(call):
    """The call's arguments, those that may be changed copied, with their strides."""
    op = _registry.op(call.op)
    changed = {arg.name for arg in op.mutated}
    return {name: copy_with_gaps(value) if name in changed else value for name, value in call.args.items()}


def _flat(tensor):
    """All elements from its first to its last, those between its rows too."""
    span = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride())) + 1 if tensor.numel() else 0
    return tensor.as_strided((span,), (1,))


def copy_with_gaps(tensor):
    return _flat(tensor).clone().as_strided(tensor.shape, tensor.stride())


def changed_difference(name, got, want, before):
    """Empty when a tensor that was changed in place holds these values, and what lies between its rows is what it was."""
    written = difference(name, got, want)
    if written:
        return written
    after = copy_with_gaps(got)
    after.copy_(before)
    return difference(f"what lies between rows of {name}", _flat(after), _flat(before))


def differences(op, call, given, outputs, want, byte=POISON):
    """Empty, or what a call wrote wrongly."""
    for name in outputs.tensors:
        problem = outputs.difference(name, want[name], byte)
        if problem:
            return f"{call}: {problem}"
    for arg in op.mutated:
        if not arg.is_output and arg.name in call.args:
            problem = changed_difference(arg.name, given[arg.name], want[arg.name], call.args[arg.name])
            if problem:
                return f"{call}: {problem}"
    return ""


def by_launch(op, call, outputs):
    """Every argument of the overload that writes, by name."""
    return {**fresh(call), **outputs.tensors}


def by_position(overload, given):
    """The same arguments, by position as far as the schema allows. torch's compiler takes a keyword called `out` for one of its own functions',
    whose rows may not lie apart."""
    names = [argument.name for argument in overload._schema.arguments if not argument.kwarg_only]
    return [given.get(name) for name in names], {name: value for name, value in given.items() if name not in names}


def by_function(op, call, outputs):
    """The arguments of the overload that allocates: without what it returns."""
    returned = {arg.name for arg in _shapes.allocatable(op)}
    return {**fresh(call), **{name: value for name, value in outputs.tensors.items() if name not in returned}}


def as_bytes(op, call):
    """The same call with bytes in place of every type of 8 bits."""
    args = {name: value.view(torch.uint8) if _is_fp8(value) else value for name, value in call.args.items()}
    outputs = {arg.name: torch.uint8 for arg in op.outputs if "u8" in arg.dtypes}
    return dataclasses.replace(call, args=args, dtypes={**call.dtypes, **outputs})


def for_opcheck(op, call):
    """The same call as opcheck can take it. Its first check compares tensors by a product that torch does not have for types of 8 bits, and
    takes a NaN for a difference: bytes stand for the former, and those that come in are NaN of neither type."""
    call = as_bytes(op, call)
    return dataclasses.replace(call, args={name: value & 0x77 if _is_bytes(value) else value for name, value in call.args.items()})


def _is_bytes(value):
    return isinstance(value, torch.Tensor) and value.dtype == torch.uint8


def _is_fp8(value):
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.element_size() == 1


def some(op_name, count=3, device="cpu", seed=11):
    """A few small calls of an op, none of them of nothing."""
    found = []
    for group in GROUPS[op_name]:
        for call in group(op_name, Draw(device, seed), full=False):
            if all(value.numel() for value in call.args.values() if isinstance(value, torch.Tensor)):
                found.append(call)
            if len(found) >= count:
                return found
    return found
