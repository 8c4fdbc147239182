import torch

from .draw import FEW_ROWS, MAGNITUDES, ROWS, Call, spaced

WIDTHS = {"n128k512_gemm_bf16": (128, 512), "n32k5120_gemm_bf16": (32, 5120)}


def rows(op, draw, full):
    n, k = WIDTHS[op]
    for magnitude in MAGNITUDES if full else (1e-37, 1.0, 1e10):
        for m in ROWS if full else FEW_ROWS:
            for gap in (0, 48):
                x = spaced(draw.normal(m, k, magnitude=magnitude), gap)
                yield Call(op, f"m={m} magnitude={magnitude} gap={gap}", {"x": x, "w": draw.normal(n, k)})


def special(op, draw, full):
    """Zero rows, NaN, infinities, subnormals, overflow, and any bits at all."""
    n, k = WIDTHS[op]
    x, w = draw.normal(16, k), draw.normal(n, k)
    x[1], x[2], x[9] = 0.0, -0.0, torch.finfo(torch.bfloat16).max
    x[4] = torch.tensor(1, dtype=torch.int16).view(torch.bfloat16)
    x[5, 17], x[6, 3], x[7, -1] = float("nan"), float("inf"), -float("inf")
    x[8, 0], x[8, 1] = float("inf"), -float("inf")
    x[10:] = draw.bits(torch.bfloat16, 6, k)
    w[0], w[1, 5] = 0.0, float("inf")
    yield Call(op, "special values", {"x": x, "w": w})


def empty(op, draw, full):
    n, k = WIDTHS[op]
    yield Call(op, "no rows", {"x": draw.normal(0, k), "w": draw.normal(n, k)})


GROUPS = {op: (rows, special, empty) for op in WIDTHS}
