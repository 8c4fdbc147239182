"""Section 1: the small GEMMs, in exactly the order of summation that their contract states."""

import torch

from .exact import chunks, sum_of_lanes, sums_of_threads

_ROWS = 1024  # At a time.


def _gemm(x, w, threads, capability):
    vector = 8 if capability < (10, 0) else 16
    out = torch.empty(x.shape[0], w.shape[0], dtype=torch.bfloat16, device=x.device)
    weights = w.float()[None]
    for rows in chunks(x.shape[0], _ROWS):
        lanes = sums_of_threads(x[rows].float()[:, None], weights, threads, vector)
        warps = sum_of_lanes(lanes.unflatten(-1, (threads // 32, 32)))
        total = warps[..., 0]
        for warp in range(1, warps.shape[-1]):
            total = total + warps[..., warp]
        out[rows] = total.bfloat16()
    return {"out": out}


def n128k512_gemm_bf16(call, capability):
    return _gemm(call["x"], call["w"], 32, capability)


def n32k5120_gemm_bf16(call, capability):
    return _gemm(call["x"], call["w"], 320, capability)
