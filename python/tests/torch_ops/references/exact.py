"""Arithmetic whose bits the contracts state, in torch, on whatever device the tensors are.

Everything here is made of operations that IEEE 754 gives one result: none of torch's fused or
approximate ones, and no division by a number, which torch replaces by a product on CUDA.
"""

import torch


def fma(a, b, c):
    """a * b + c in fp32, rounded once.

    The product of two fp32 values is exact in fp64, the sum is not. Rounding it to odd (where
    something was cut off, to the neighbour whose last bit is 1) keeps what the last rounding, to
    fp32, must know.
    """
    product = a.double() * b.double()
    addend = c.double()
    total = product + addend
    shifted = total - product
    error = (product - (total - shifted)) + (addend - shifted)
    bits = total.view(torch.int64)
    cut = (error != 0) & torch.isfinite(total) & (bits & 1 == 0)
    outward = (error > 0) == (total > 0)
    bits = bits + cut * (2 * outward.to(torch.int64) - 1)
    return bits.view(torch.float64).float()


def divide(a, number):
    """a / number in fp32, rounded once."""
    return a / torch.full_like(a, number)


def sqrt(values):
    """In fp32, rounded once: torch's own is an approximation on the CPU."""
    return values.double().sqrt().float()


def constant(value, like):
    """An fp32 number as a tensor that fp32 tensors broadcast with."""
    return torch.full((), value, dtype=torch.float32, device=like.device)


def rsqrt(values):
    """rsqrt.approx.ftz.f32. On a GPU the instruction's own bits; else 1 / sqrt rounded, which lies
    within 2 units of the last place of them."""
    tiny = torch.finfo(torch.float32).tiny
    flushed = torch.where(values.abs() < tiny, torch.copysign(torch.zeros_like(values), values), values)
    if flushed.is_cuda:
        return torch.rsqrt(flushed)
    root = torch.sqrt(flushed.double())
    return (torch.ones_like(root) / root).float()


def sum_of_lanes(lanes):
    """Xor-shuffles 16, 8, 4, 2, 1 over the last axis of 32: every lane ends with this sum, since a
    pair adds the same two values."""
    for half in (16, 8, 4, 2, 1):
        lanes = lanes[..., :half] + lanes[..., half : 2 * half]
    return lanes[..., 0]


def sums_of_threads(a, b, threads, vector):
    """Thread t takes the vectors t, threads + t, ... of the last axis, one fma for each element in
    order, from 0. a and b broadcast with each other; the last axis becomes that of the threads."""
    k = a.shape[-1]
    leading = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    sums = torch.zeros(*leading, threads, dtype=torch.float32, device=a.device)
    for first in range(0, k, threads * vector):
        busy = min(threads, (k - first) // vector)
        chunk = slice(first, first + busy * vector)
        left = a[..., chunk].unflatten(-1, (busy, vector))
        right = b[..., chunk].unflatten(-1, (busy, vector))
        part = sums[..., :busy]
        for element in range(vector):
            part = fma(left[..., element], right[..., element], part)
        sums[..., :busy] = part
    return sums


def row_sum(a, b):
    """Section 0, "Row sums": the sum of a * b over the last axis, in fp32."""
    threads = 32 * -(-min(1024, a.shape[-1] // 8) // 32)
    warps = sum_of_lanes(sums_of_threads(a, b, threads, 8).unflatten(-1, (threads // 32, 32)))
    padded = torch.zeros(*warps.shape[:-1], 32, dtype=torch.float32, device=a.device)
    padded[..., : warps.shape[-1]] = warps
    return sum_of_lanes(padded)


def chunks(rows, most):
    """Slices of at most so many rows, so that intermediate values stay small."""
    return [slice(first, min(first + most, rows)) for first in range(0, rows, most)]
