import math

import torch

from .draw import FEW_ROWS, MAGNITUDES, ROWS, Call, spaced

POSITIONS = 300
HEAD = 512


def _angles(draw):
    turn = (torch.rand(POSITIONS, 32, generator=draw.generator, device=draw.device) * 2 - 1) * math.pi
    return torch.polar(torch.ones_like(turn), turn)


def _call(op, draw, heads, label, q_gap=0, out_gap=0, freqs=None, wide=True):
    freqs = _angles(draw) if freqs is None else freqs
    dtype = torch.int64 if wide else torch.int32
    positions = draw.integers(-20, POSITIONS + 20, heads.shape[0], dtype=dtype)
    if op == "rope_inplace":
        return Call(op, label, {"x": spaced(heads, out_gap * HEAD), "freqs": freqs, "positions": positions})
    args = {"q": spaced(heads, q_gap * HEAD), "freqs": freqs, "positions": positions}
    return Call(op, label, args, gaps={"out": out_gap * HEAD})


def rows(op, draw, full):
    for magnitude in MAGNITUDES:
        for count in ROWS if full else FEW_ROWS:
            heads = draw.normal(count, 3 if count > 97 or not full else 16, HEAD, magnitude=magnitude)
            label = f"rows={count} magnitude={magnitude}"
            yield _call(op, draw, heads, label, count % 2, 4 * (count % 3), wide=count % 5 < 3)


def heads(op, draw, full):
    for count in (1, 2, 3, 5, 15, 16, 17) + ((64, 100) if full else ()):
        for n in (1, 3, 33, 129) if full else (1, 3):
            yield _call(op, draw, draw.normal(n, count, HEAD), f"rows={n} heads={count}", 0, count % 3)


def special(op, draw, full):
    values = draw.bits(torch.bfloat16, 40, 2, HEAD)
    freqs = _angles(draw)
    torch.view_as_real(freqs)[0, 0] = torch.tensor([float("inf"), 0.0])
    torch.view_as_real(freqs)[0, 1] = torch.tensor([0.0, float("nan")])
    yield _call(op, draw, values, "any bits", freqs=freqs)


def empty(op, draw, full):
    yield _call(op, draw, draw.normal(0, 16, HEAD), "no rows")


GROUPS = {op: (rows, heads, special, empty) for op in ("q_rope_store", "rope_inplace")}
