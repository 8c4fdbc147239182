import torch

from .draw import FEW_ROWS, MAGNITUDES, ROWS, Call, spaced

EPS = 1e-6
STREAMS = ("hc_combine_norm", "hc_combine_norm_mxfp8")
QUANTIZING = ("mxfp8_quantize", "rmsnorm_mxfp8", "hc_combine_norm_mxfp8")
ROW_OPS = ("rmsnorm", "mxfp8_quantize", "rmsnorm_mxfp8", *STREAMS)


def _call(op, draw, x, label, pre=torch.float32, bytes_only=False):
    """A call of one of ROW_OPS on these rows."""
    args = {"x": x}
    k = x.shape[1] // 4 if op in STREAMS else x.shape[1]
    if op in STREAMS:
        args["pre"] = draw.normal(x.shape[0], 4, dtype=pre)
    if op != "mxfp8_quantize":
        args |= {"w": draw.normal(k), "eps": EPS}
    dtypes = {"q": torch.uint8, "sf": torch.uint8} if bytes_only and op in QUANTIZING else {}
    return Call(op, label, args, dtypes=dtypes)


def _width(op, k):
    return 4 * k if op in STREAMS else k


def rows(op, draw, full):
    k = 5120 if full else 256
    for magnitude in MAGNITUDES:
        for m in ROWS if full else FEW_ROWS:
            for gap in (0, 24):
                x = spaced(draw.normal(m, _width(op, k), magnitude=magnitude), gap)
                pre = torch.bfloat16 if m % 2 else torch.float32
                yield _call(op, draw, x, f"m={m} k={k} magnitude={magnitude} gap={gap}", pre, bytes_only=m % 3 == 0)


def widths(op, draw, full):
    narrow = (32, 64, 96, 288, 1312) if op in STREAMS else (32, 96, 288, 1312, 8224)
    wide = (128, 256, 512, 1280, 2048, 2304, 4096, 5152, 7168, 8160, 8192)
    wider = () if op in STREAMS else (8448, 16384, 20480, 32800)
    for k in narrow + (wide + wider if full else ()):
        for m in (1, 3, 8, 33, 129, 600) if full else (1, 3, 130):
            x = spaced(draw.normal(m, _width(op, k)), 24)
            yield _call(op, draw, x, f"m={m} k={k}")
    if op == "rmsnorm":
        for k in (8, 16, 24, 40, 8200):
            yield _call(op, draw, draw.normal(5, k), f"m=5 k={k}")


def special(op, draw, full):
    """Zero rows among random ones, one NaN in a group, a group of NaN, infinities, any bits."""
    k = 512
    x = draw.normal(40, _width(op, k))
    x[1], x[2] = 0.0, -0.0
    x[3, 40], x[4, 64:96], x[5, 100], x[6, 200] = float("nan"), float("nan"), float("inf"), -float("inf")
    x[7, :32] = float("nan")
    x[7, 0] = 1.0
    x[8:16] = draw.bits(torch.bfloat16, 8, x.shape[1])
    # Scales at the edges of what a byte holds, and ties of e4m3.
    x[16], x[17] = 3e38, 1e-38
    x[18] = draw.pick([1.0, 1.0625, 1.1875, 17.0, 19.0, 448.0, -448.0], x.shape[1]).bfloat16()
    x[20:30] = draw.bits(torch.int16, 10, x.shape[1]).bitwise_and(0x807F).view(torch.bfloat16)  # Subnormals.
    yield _call(op, draw, x, "special values")


def empty(op, draw, full):
    yield _call(op, draw, draw.normal(0, _width(op, 64)), "no rows")


def mhc_rows(op, draw, full):
    for magnitude in MAGNITUDES:
        for t in ROWS if full else FEW_ROWS:
            h = 5120 if t <= 97 and full else 264
            yield _mhc_call(op, draw, t, h, magnitude)
    for h in (8, 16, 2048, 7168, 12296):
        yield _mhc_call(op, draw, 3, h, 1.0)
    yield _mhc_call(op, draw, 0, 64, 1.0)


def _mhc_call(op, draw, t, h, magnitude):
    args = {"x": draw.normal(t, h, magnitude=magnitude), "residual": draw.normal(t, 4, h, magnitude=magnitude)}
    args |= {"post": draw.normal(t, 4, dtype=torch.float32), "comb": draw.normal(t, 4, 4, dtype=torch.float32)}
    return Call(op, f"t={t} h={h} magnitude={magnitude}", args)


def mhc_special(op, draw, full):
    args = {"x": draw.bits(torch.bfloat16, 20, 64), "residual": draw.bits(torch.bfloat16, 20, 4, 64)}
    args |= {"post": draw.bits(torch.float32, 20, 4), "comb": draw.normal(20, 4, 4, dtype=torch.float32)}
    yield Call(op, "any bits", args)


def fp32_rows(op, draw, full):
    for x_type in (torch.bfloat16, torch.float32):
        for w_type in (torch.bfloat16, torch.float32):
            for m in ROWS if full else FEW_ROWS:
                magnitude = MAGNITUDES[m % len(MAGNITUDES)]
                k = 5120 if full else 264
                yield _fp32_call(op, draw, (m, k), x_type, w_type, magnitude)
            for shape in ((64,), (2, 3, 1288), (2, 1, 3, 8), (0, 3, 64), (5, 8200)):
                yield _fp32_call(op, draw, shape, x_type, w_type, 1.0)


def _fp32_call(op, draw, shape, x_type, w_type, magnitude):
    x, w = draw.normal(*shape, magnitude=magnitude, dtype=x_type), draw.normal(shape[-1], dtype=w_type)
    return Call(op, f"{list(shape)} {x_type} {w_type} magnitude={magnitude}", {"x": x, "w": w, "eps": EPS})


def fp32_special(op, draw, full):
    x = draw.bits(torch.float32, 30, 64)
    x[:2] = 0.0
    yield Call(op, "any bits", {"x": x, "w": draw.normal(64, dtype=torch.float32), "eps": EPS})


GROUPS = {op: (rows, widths, special, empty) for op in ROW_OPS}
GROUPS["mhc_post_split_h"] = (mhc_rows, mhc_special)
GROUPS["rmsnorm_fp32"] = (fp32_rows, fp32_special)
