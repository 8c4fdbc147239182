"""References of the built-in ops, in torch: exact integers, and floating point whose every rounding is
the contract's. One module for each family, one function for each op, of the call's arguments by name.

Beside the arguments a call holds what no argument says: "@k", "@width", ... are symbols of the op's
shapes that only outputs have. The result has a tensor for every output that the call may have.
"""

from . import candidates, engram, gemm, norm, rope, wo_a


def reference_of(op):
    """The reference of an op: a function of (call, compute capability). None where there is none."""
    for family in (candidates, engram, gemm, norm, rope, wo_a):
        function = getattr(family, op, None)
        if function is not None and not op.startswith("_"):
            return function
    return None
