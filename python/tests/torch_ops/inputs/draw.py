"""Calls with drawn inputs, on any device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

# Section 6 of docs/kernel_contracts.md.
ROWS = (1, 2, 3, 5, 6, 7, 8, 9, 31, 32, 33, 48, 64, 96, 97, 1000, 4095, 4096, 4097)
FEW_ROWS = (1, 2, 7, 33)
MAGNITUDES = (1e-37, 4e-36, 1e-7, 1e-3, 1.0, 448.0, 1e3, 1e10)


@dataclass(frozen=True)
class Call:
    """One call without its outputs."""

    op: str
    label: str  # What is particular about it, for messages.
    args: dict[str, Any]  # Inputs by name; what is not here is left out.
    extents: dict[str, int] = field(default_factory=dict)  # Of symbols that only outputs have.
    wanted: tuple[str, ...] = ()  # Optional outputs that are asked for.
    dtypes: dict[str, torch.dtype] = field(default_factory=dict)  # Of outputs, where not the usual one.
    gaps: dict[str, int] = field(default_factory=dict)  # Elements between the rows of an output.

    def __str__(self):
        return f"{self.op}, {self.label}"


class Draw:
    def __init__(self, device="cpu", seed=1):
        self.device = torch.device(device)
        self.generator = torch.Generator(self.device).manual_seed(seed)

    def normal(self, *shape, magnitude=1.0, dtype=torch.bfloat16):
        values = torch.randn(shape, generator=self.generator, device=self.device)
        return (values * magnitude).to(dtype)

    def integers(self, low, high, *shape, dtype=torch.int64):
        """From low to high, both included."""
        return torch.randint(low, high + 1, shape, generator=self.generator, device=self.device).to(dtype)

    def whole(self, *shape):
        """Any int64, from two draws of 32 bits."""
        return self.integers(-(2**31), 2**31 - 1, *shape) << 32 | self.integers(0, 2**32 - 1, *shape)

    def bits(self, dtype, *shape):
        """Any bits at all."""
        size = dtype.itemsize
        whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
        values = self.whole(*shape)
        return (values & 0xFF if size == 1 else values).to(whole).view(dtype)

    def pick(self, values, *shape, dtype=torch.float32):
        among = torch.tensor(values, dtype=dtype, device=self.device)
        return among[self.integers(0, len(values) - 1, *shape)]

    def permutation(self, count):
        return torch.randperm(count, generator=self.generator, device=self.device)

    def coin(self):
        return bool(self.integers(0, 1, 1).item())


def spaced(tensor, gap, filling=0):
    """The same values in rows (of the first axis) with `gap` elements between them."""
    if not gap or tensor.dim() < 2:
        return tensor
    inner = tensor[0].numel() if tensor.shape[0] else tensor.flatten(1).shape[1]
    room = torch.full((tensor.shape[0], inner + gap), filling, dtype=tensor.dtype, device=tensor.device)
    view = room[:, :inner].unflatten(1, tuple(tensor.shape[1:]))
    view.copy_(tensor)
    return view


def skewed(tensor):
    """The same values, at an address that only their own size divides."""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return room[1:].view(tensor.shape).copy_(tensor)
