"""Calls of every built-in op, as docs/kernel_contracts.md, section 6, asks for them: one module for each
family. A group is a function of (op, draw, full) that yields calls; few and small ones unless `full`."""

from . import candidates, engram, gemm, norm, rope, wo_a
from .draw import Call, Draw

FAMILIES = (candidates, engram, gemm, norm, rope, wo_a)
GROUPS = {op: groups for family in FAMILIES for op, groups in family.GROUPS.items()}

__all__ = ["Call", "Draw", "GROUPS"]
