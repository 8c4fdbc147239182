"""Section 5: rotation of the last 64 elements of heads of 512, bit for bit."""

import torch

from .exact import fma

_COPIED = 448


def _rope(x, freqs, positions):
    rows = positions.long().clamp(0, freqs.shape[0] - 1)
    angles = torch.view_as_real(freqs)[rows][:, None]
    cosine, sine = angles[..., 0], angles[..., 1]
    pairs = x[..., _COPIED:].float().unflatten(-1, (32, 2))
    even, odd = pairs[..., 0], pairs[..., 1]
    rotated = torch.stack((fma(even, cosine, -(odd * sine)), fma(even, sine, odd * cosine)), -1)
    out = x.clone(memory_format=torch.contiguous_format)
    out[..., _COPIED:] = rotated.flatten(-2).bfloat16()
    return out


def q_rope_store(call, capability):
    return {"out": _rope(call["q"], call["freqs"], call["positions"])}


def rope_inplace(call, capability):
    return {"x": _rope(call["x"], call["freqs"], call["positions"])}
