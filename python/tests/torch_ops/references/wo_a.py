"""Section 5: the wo_a ops, in the project's own orders of summation (reference/wo_a.hpp)."""

import torch

from .exact import sum_of_lanes, sums_of_threads
from .norm import mxfp8_quantize
from .tensor_core import tensor_core_sum

_PARTS, _WARPS, _SLICE, _STEP = 2, 8, 128, 32


def wo_a_bf16_gemv(call, capability):
    x, w = call["x"].float()[0, :, None], call["w"].float()
    return {"y": sum_of_lanes(sums_of_threads(x, w, 32, 8)).bfloat16()[None]}


def _groups(values):
    """[..., d] as [..., steps, 2, 16]: of each 8 elements the pairs 0 and 2, then the pairs 1 and 3."""
    return values.unflatten(-1, (-1, 4, 2, 2, 2)).movedim(-2, -4).flatten(-3)


def _sums_of_slices(x, w):
    """[..., slices, sums of one slice in the order in which they are added]."""
    sums = tensor_core_sum(_groups(x), _groups(w))
    return sums.flatten(-2).unflatten(-1, (-1, _SLICE // _STEP * 2))


def _in_order(sums):
    total = sums[..., 0]
    for i in range(1, sums.shape[-1]):
        total = total + sums[..., i]
    return total


def _part(slices):
    """The slices of one part: dealt to the warps, each of which adds up its own from 0."""
    warps = []
    for warp in range(_WARPS):
        own = slices[..., warp::_WARPS, :].flatten(-2)
        zero = torch.zeros_like(slices[..., 0, :1])
        warps.append(_in_order(torch.cat((zero, own), -1)))
    return _in_order(torch.stack(warps, -1))


def _small_batch(call):
    w = call["w"]
    tokens = []
    for token in call["x"]:
        slices = _sums_of_slices(token.contiguous()[:, None], w).unflatten(-2, (_PARTS, -1))
        parts = [_part(slices[..., part, :, :]) for part in range(_PARTS)]
        tokens.append(_in_order(torch.stack(parts, -1)).bfloat16())
    return torch.stack(tokens) if tokens else w.new_empty(0, *w.shape[:2])


def wo_a_bf16_small_batch(call, capability):
    return {"y": _small_batch(call)}


def wo_a_bf16_small_batch_mxfp8(call, capability):
    return mxfp8_quantize({"x": _small_batch(call).flatten(1)}, capability)
