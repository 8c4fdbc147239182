import torch

from .draw import MAGNITUDES, Call, spaced

BATCHED = ("wo_a_bf16_small_batch", "wo_a_bf16_small_batch_mxfp8")


def _call(op, draw, m, g, r, d, magnitude=1.0, gap=0, bytes_only=False):
    x = spaced(draw.normal(m, g, d, magnitude=magnitude), gap)
    dtypes = {"q": torch.uint8, "sf": torch.uint8} if bytes_only and op.endswith("mxfp8") else {}
    return Call(op, f"m={m} g={g} r={r} d={d} magnitude={magnitude} gap={gap}", {"x": x, "w": draw.normal(g, r, d)}, dtypes=dtypes)


def one_token(op, draw, full):
    for magnitude in MAGNITUDES:
        yield _call(op, draw, 1, 2, 24, 768, magnitude)
    shapes = ((1, 1, 256), (3, 7, 512), (2, 33, 4352), (7, 9, 3840))
    for g, r, d in shapes + (((2, 1024, 4096), (1, 64, 12800)) if full else ()):
        yield _call(op, draw, 1, g, r, d)


def tokens(op, draw, full):
    for magnitude in MAGNITUDES if full else (1e-37, 1.0, 1e10):
        for m in range(1, 17) if full else (1, 2, 7, 16):
            yield _call(op, draw, m, 2, 64, 1536 if full else 512, magnitude, gap=24 * (m % 2), bytes_only=m % 3 == 0)


def sizes(op, draw, full):
    shapes = ((1, 64, 512), (3, 64, 1024), (1, 192, 2560))
    more = ((5, 64, 4608), (1, 64, 8192), (2, 128, 12800), (2, 1024, 4096))
    for g, r, d in shapes + (more if full else ()):
        for m in (1, 3, 8, 16) if full else (3,):
            yield _call(op, draw, m, g, r, d, gap=8)


def _special_values(draw, x, w):
    """Zero tokens among random ones, NaN, infinities, subnormals, the largest value, and any bits at all."""
    if x.shape[0] == 16:
        x[1], x[2], x[7] = 0.0, -0.0, torch.finfo(torch.bfloat16).max
        x[3] = torch.tensor(1, dtype=torch.int16).view(torch.bfloat16)
        x[4, 0, 17], x[5, 0, 3], x[6, 0, 9] = float("nan"), float("inf"), -float("inf")
        x[8:] = draw.bits(torch.bfloat16, 8, *x.shape[1:])
    else:
        x[0, 0], x[0, 2] = draw.bits(torch.bfloat16, *x.shape[2:]), 0.0
    w[0, 0], w[0, 1, 5] = 0.0, float("inf")
    return {"x": x, "w": w}


def special(op, draw, full):
    yield Call(op, "special values", _special_values(draw, draw.normal(16, 2, 512), draw.normal(2, 64, 512)))


def special_token(op, draw, full):
    yield Call(op, "special values", _special_values(draw, draw.normal(1, 3, 512), draw.normal(3, 16, 512)))


def empty(op, draw, full):
    yield _call(op, draw, 0, 2, 64, 512)


GROUPS = {"wo_a_bf16_gemv": (one_token, special_token), **{op: (tokens, sizes, special, empty) for op in BATCHED}}
