import torch

from .draw import FEW_ROWS, ROWS, Call

VOCABULARY = 5000
MODES = ("decode", "verify", "extend", "ragged")


def _tables(draw, layers, order, heads, map_type=torch.int64):
    """Multipliers are odd and, times a compressed id of 20 bits, below 2^63; primes are of all sizes."""
    size = draw.integers(1, 63, layers, order - 1, heads)
    positive = draw.whole(layers, order - 1, heads) & torch.iinfo(torch.int64).max
    return {
        "token_map": draw.integers(0, 2**20 - 1, VOCABULARY, dtype=map_type),
        "multipliers": draw.integers(0, 2**42, layers, order) * 2 + 1,
        "primes": positive >> (size - 1) | 1,
        "offsets": draw.integers(0, 2**30, layers, (order - 1) * heads),
        "pad_id": 12_345,
    }


def _tokens(draw, *shape, dtype=torch.int64):
    """One of 16 is outside the map."""
    outside = torch.where(draw.integers(0, 1, *shape) == 0, draw.integers(-100, -1, *shape), draw.integers(VOCABULARY, 2**30, *shape))
    tokens = torch.where(draw.integers(0, 15, *shape) == 0, outside, draw.integers(0, VOCABULARY - 1, *shape))
    return tokens.to(dtype)


def _run_starts(draw, count, t):
    """Of `count` runs over t tokens, sorted, many of them empty."""
    starts = draw.integers(0, t, count)
    starts[1::3] = starts[0 : count - 1 : 3]
    return starts.sort().values


def _mode(draw, mode, t, index_type):
    """What says the mode, and how many requests there are."""
    if mode == "decode":
        return {}, t
    if mode == "verify":
        return {"block": 3}, -(-t // 3)
    requests = t // 4 + 1
    if mode == "ragged":
        zero = torch.zeros(1, dtype=torch.int64, device=draw.device)
        return {"qo_indptr": torch.cat((zero, _run_starts(draw, requests, t - t // 5))).to(index_type)}, requests
    starts = _run_starts(draw, requests, t)
    starts[0] = 0
    row = torch.searchsorted(starts, torch.arange(t, device=draw.device), right=True) - 1
    return {"row": row.to(index_type), "starts": starts.to(index_type)}, requests


def _reciprocals(primes):
    from references.engram import engram_reciprocals

    return engram_reciprocals({"primes": primes}, (9, 0))["reciprocals"]


def _step(draw, t, order, mode, index_type=torch.int64, slots=True, images=False, pads=False):
    small = draw.integers(0, 7, t)
    positions = torch.where(draw.integers(0, 2, t) == 0, small, draw.integers(0, 100_000, t))
    said, requests = _mode(draw, mode, t, index_type)
    rows = requests + 17
    step = {"input_ids": _tokens(draw, t, dtype=index_type), "positions": positions.to(index_type)}
    step["history"] = _tokens(draw, rows, order - 1, dtype=torch.int32)
    if slots:
        step["req_slots"] = draw.permutation(rows)[:requests].to(index_type)
    if images:
        step |= {"image_token_id": 77, "mm_pad_shift": VOCABULARY - 700}  # About one token of five.
    if pads:
        step["num_real"] = t - t // 3
    return {**step, **said}


def hashes(op, draw, full):
    for t in (ROWS if full else FEW_ROWS) + (0,):
        for mode in MODES:
            shape = (3, 4, 8) if full else (2, 4, 3)
            tables = _tables(draw, *shape)
            yield Call(op, f"t={t} {mode}", tables | _step(draw, t, shape[1], mode))
    for number in range(4 * 16):
        mode, slots, images, pads, narrow = MODES[number % 4], *(bool(number & bit) for bit in (4, 8, 16, 32))
        index_type = torch.int32 if narrow else torch.int64
        order, heads = (2, 5, 8, 3)[number % 4], (1, 4, 32, 7)[number // 4 % 4]
        args = _tables(draw, 2, order, heads, index_type)
        args |= _step(draw, 40, order, mode, index_type, slots, images, pads)
        if number % 3 == 0:
            args["reciprocals"] = _reciprocals(args["primes"])
        label = f"{mode} order={order} heads={heads} slots={slots} images={images} pads={pads} {index_type}"
        yield Call(op, label, args)


def any_tokens(op, draw, full):
    args = _tables(draw, 2, 4, 3) | _step(draw, 6, 4, "decode")
    most, least = torch.iinfo(torch.int64).max, torch.iinfo(torch.int64).min
    args["input_ids"] = torch.tensor([most, least, 1 << 40, -(1 << 40), 4999, 5000], device=draw.device)
    args["positions"] = torch.full((6,), 100, device=draw.device)
    yield Call(op, "tokens of any 64 bits", args)
    yield Call(op, "tokens of any 64 bits, images", args | {"image_token_id": 77, "mm_pad_shift": 1 << 35})


def _alias_padding(args, t):
    """Live rows have distinct slots; a padding row, one of four, has that of a live row far away."""
    place = torch.arange(t, device=args["req_slots"].device)
    padding = place % 4 == 2
    other = (place + t // 2) % t
    other = torch.where(other % 4 == 2, (other + 1) % t, other)
    slots = args["req_slots"]
    args["req_slots"] = torch.where(padding, slots[other], slots)
    args["out_cache_loc"] = torch.where(padding, torch.zeros_like(place), place + 1).to(slots.dtype)


def decode_and_commit(op, draw, full):
    for t in (ROWS if full else FEW_ROWS) + (0,):
        for order in (2, 4, 8):
            index_type = torch.int32 if t % 3 == 0 else torch.int64
            args = _tables(draw, 3, order, 8, index_type)
            args |= _step(draw, t, order, "decode", index_type, images=t % 2 == 0)
            if t:
                _alias_padding(args, t)
            else:
                args["out_cache_loc"] = args["req_slots"].clone()
            if order != 4:
                args["reciprocals"] = _reciprocals(args["primes"])
            yield Call(op, f"t={t} order={order}", args)


def commits(op, draw, full):
    for k in (1, 3, 7):
        for w in (0, 1, 4, 9):
            for r in ROWS if full and w == 4 else (0, 1, 33, 129):
                narrow, wide = (torch.int32, torch.int64) if r % 2 else (torch.int64, torch.int32)
                args = {
                    "history": draw.integers(0, 100_000, r + 5, k, dtype=torch.int32),
                    "verify_ids": draw.integers(-1000, 199_000, r, w, dtype=wide),
                    "req_slots": draw.permutation(r + 5)[:r].to(narrow),
                    "commit_lens": draw.integers(-2, w + 1, r, dtype=wide),
                }
                yield Call(op, f"r={r} k={k} w={w}", args)


def reciprocals(op, draw, full):
    primes = (draw.whole(2, 7, 33) & torch.iinfo(torch.int64).max) >> draw.integers(0, 62, 2, 7, 33) | 1
    primes[0, 0, :5] = torch.tensor([1, 2, 3, 2**63 - 1, 2**63 - 2])
    yield Call(op, "primes of all sizes", {"primes": primes})
    yield Call(op, "4096 of them", {"primes": draw.integers(1_000_000, 4_000_000, 4096)})


def _gather_call(op, draw, n, rows, dim, block, row_lo, narrow=False, as_bytes=False):
    high = row_lo + rows
    odd = draw.pick([row_lo - 1, high, row_lo, high - 1, -1, row_lo - rows, 2**31 - 1, -(2**31)], n, dtype=torch.int64)
    ids = torch.where(draw.integers(0, 3, n) == 0, odd, draw.integers(row_lo, high - 1, n))
    weight, scale = draw.bits(torch.float8_e4m3fn, rows, dim), draw.bits(torch.uint8, rows, dim // block)
    args = {
        "weight": weight.view(torch.uint8) if as_bytes else weight,
        "scale": scale if as_bytes else scale.view(torch.float8_e8m0fnu),
        "ids": ids.int() if narrow else ids,
        "row_lo": row_lo,
    }
    return Call(op, f"n={n} dim={dim} block={block} row_lo={row_lo}", args)


def gathers(op, draw, full):
    for n in (ROWS if full else FEW_ROWS) + (0,):
        yield _gather_call(op, draw, n, 1000, 512, 128, 5_000_000_000)
        yield _gather_call(op, draw, n, 1000, 512, 128, 1_000_000, narrow=True, as_bytes=True)
    for dim in (16, 48, 240, 768) + ((2048, 5120, 16384) if full else ()):
        for block in (1, 2, 3, 8, 12, 16, 24, 32, 128, 240):
            if dim % block == 0:
                yield _gather_call(op, draw, 33, 37, dim, block, 7)


def gates(op, draw, full):
    kinds = (torch.bfloat16, torch.float32)
    for t in (ROWS if full else FEW_ROWS) + (0,):
        yield _gate_call(op, draw, t, 4, 5120 if t <= 97 and full else 264, (kinds[0],) * 4)
    for number in range(16):
        types = tuple(kinds[number >> bit & 1] for bit in range(4))
        yield _gate_call(op, draw, 5, 3, 264, types)
    for d in (8, 32, 264, 1312, 5120, 8200):
        for hc in (1, 4):
            yield _gate_call(op, draw, 3, hc, d, (kinds[d % 16 // 8],) * 4)
    for magnitude in (1e-37, 4e-36, 1e-7, 1e-3, 448.0, 1e3, 1e10):
        yield _gate_call(op, draw, 9, 4, 264, (kinds[0],) * 4, magnitude)


def _gate_call(op, draw, t, hc, d, types, magnitude=1.0):
    args = {
        "x": draw.normal(t, hc, d, magnitude=magnitude, dtype=types[0]),
        "kv": draw.normal(t, (hc + 1) * d, magnitude=magnitude, dtype=types[1]),
        "q_weight": draw.normal(hc, d, dtype=types[2]),
        "k_weight": draw.normal(hc, d, dtype=types[3]),
        "eps": 1e-6,
        "clamp": 1e-6,
    }
    return Call(op, f"t={t} hc={hc} d={d} {types} magnitude={magnitude}", args)


def special_gates(op, draw, full):
    call = _gate_call(op, draw, 12, 2, 64, (torch.bfloat16,) * 4)
    x, kv = call.args["x"], call.args["kv"]
    x[0], kv[1], x[2, 0, 5], kv[3, 7], x[4, 1, 0] = 0.0, 0.0, float("nan"), float("nan"), float("inf")
    x[6:] = draw.bits(torch.bfloat16, 6, 2, 64)
    yield Call(op, "special values", call.args)


GROUPS = {
    "engram_hash_ids": (hashes, any_tokens),
    "engram_hash_ids_and_commit": (decode_and_commit,),
    "engram_commit_history": (commits,),
    "engram_reciprocals": (reciprocals,),
    "engram_gather": (gathers,),
    "fused_engram_gate": (gates, special_gates),
}
