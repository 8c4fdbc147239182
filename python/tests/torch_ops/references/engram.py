"""Section 4: hash ids, histories, gathered rows and the gate. Integers are exact; the gate's bits are
those of the order that section 0 states, with a sigmoid of stated steps."""

import torch

from .exact import constant, divide, fma, row_sum, rsqrt, sqrt


def _owners(call, count, device):
    """(request, offset, padding) of each token."""
    t = torch.arange(count, device=device)
    padding = torch.zeros(count, dtype=torch.bool, device=device)
    if call.get("num_real") is not None:
        padding = t >= call["num_real"]
    if call.get("qo_indptr") is not None:
        ends = call["qo_indptr"].long()
        # The last request that begins at or before t; those before it that begin there are empty.
        request = torch.searchsorted(ends, t, right=True) - 1
        outside = (request < 0) | (request >= ends.shape[0] - 1)
        padding = padding | outside
        request = request.clamp(0, max(ends.shape[0] - 2, 0))
        return request, t - ends[request], padding
    if call.get("row") is not None:
        request = call["row"].long()
        return request, t - call["starts"].long()[request], padding
    block = call.get("block") or 1
    return t // block, t % block, padding


def _given_tokens(call, order):
    """[t, order]: the tokens at each shift, and which tokens are padding."""
    ids = call["input_ids"].long()
    history = call["history"].long()
    request, offset, padding = _owners(call, ids.shape[0], ids.device)
    request = torch.where(padding, torch.zeros_like(request), request)
    offset = torch.where(padding, torch.zeros_like(offset), offset)
    row = request if call.get("req_slots") is None else call["req_slots"].long()[request]
    t = torch.arange(ids.shape[0], device=ids.device)
    columns = []
    for shift in range(order):
        inside = shift <= offset
        from_step = ids[(t - shift).clamp(min=0)]
        place = (order - 2 - (shift - offset - 1)).clamp(0, order - 2)
        safe_row = torch.where(inside | padding, torch.zeros_like(row), row)
        from_history = history[safe_row, place] if history.numel() else torch.zeros_like(ids)
        columns.append(torch.where(inside, from_step, from_history))
    tokens = torch.stack(columns, 1)
    return torch.where(padding[:, None], torch.zeros_like(tokens), tokens), padding


def _compressed(call, tokens, padding):
    image = call.get("image_token_id")
    positions = call["positions"].long()
    blocked, columns = padding, []
    for shift in range(tokens.shape[1]):
        token = tokens[:, shift]
        blocked = blocked | (positions < shift)
        if image is not None:
            blocked = blocked | (token == image)
        looked_up = call["token_map"].long()[token.clamp(0, call["token_map"].shape[0] - 1)]
        columns.append(torch.where(blocked, torch.full_like(token, call["pad_id"]), looked_up))
    return torch.stack(columns, 1)


def engram_hash_ids(call, capability):
    multipliers, primes, offsets = call["multipliers"], call["primes"], call["offsets"]
    order = multipliers.shape[1]
    tokens, padding = _given_tokens(call, order)
    if call.get("image_token_id") is not None:
        image = torch.full_like(tokens, call["image_token_id"])
        tokens = torch.where(tokens >= call["mm_pad_shift"], image, tokens)
    products = _compressed(call, tokens, padding)[:, None] * multipliers[None]
    hashes, parts = products[..., 0], []
    for oldest in range(1, order):
        hashes = hashes ^ products[..., oldest]
        parts.append(hashes[..., None] % primes[None, :, oldest - 1])
    ids = torch.stack(parts, 2).flatten(2) + offsets[None]
    return {"ids": ids, "tokens": tokens.int()}


def engram_hash_ids_and_commit(call, capability):
    hashed = engram_hash_ids(call, capability)
    history = call["history"].clone()
    live = call["out_cache_loc"] != 0
    newest_last = hashed["tokens"][:, : history.shape[1]].flip(1)
    history[call["req_slots"].long()[live]] = newest_last[live]
    return {**hashed, "history": history}


def engram_commit_history(call, capability):
    history = call["history"].clone()
    slots = call["req_slots"].long()
    length, width = history.shape[1], call["verify_ids"].shape[1]
    both = torch.cat((history[slots].long(), call["verify_ids"].long()), 1)
    taken = call["commit_lens"].long().clamp(0, width)
    place = taken[:, None] + torch.arange(length, device=history.device)[None]
    history[slots] = both.gather(1, place).int()
    return {"history": history}


def engram_reciprocals(call, capability):
    """floor((2^64 - 1) / p) in signed arithmetic, from 2^64 - 1 = 2 * (2^63 - 1) + 1."""
    primes = call["primes"]
    most = torch.full_like(primes, torch.iinfo(torch.int64).max)
    half = most // primes
    rest = most - half * primes
    return {"reciprocals": 2 * half + (rest >= primes - rest - 1)}


def engram_gather(call, capability):
    weight, scale = call["weight"].view(torch.uint8), call["scale"].view(torch.uint8)
    rows, dim = weight.shape
    ids = call["ids"].long() - call["row_lo"]
    here = (ids >= 0) & (ids < rows)
    out = torch.zeros(ids.shape[0], dim, dtype=torch.bfloat16, device=ids.device)
    found = ids[here]
    values = weight[found].view(torch.float8_e4m3fn).float()
    exponent = scale[found].int()
    bits = torch.where(exponent == 0, torch.full_like(exponent, 0x00400000), exponent << 23)
    factor = torch.where(exponent == 255, constant(float("nan"), values), bits.view(torch.float32))
    out[here] = (values * factor.repeat_interleave(dim // scale.shape[1], 1)).bfloat16()
    return {"out": out}


def _exp_of_negative(a):
    def number(value):
        return constant(value, a)

    bounded = torch.where(a > 150, number(150), a)
    shifted = fma(bounded, number(-1.44269504), number(12582912))  # Adding 1.5 * 2^23 rounds.
    n = shifted - number(12582912)
    r = fma(n, number(2.12194440e-4), fma(n, number(-0.693359375), -bounded))
    p = number(1 / 5040).expand_as(a)
    for coefficient in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
        p = fma(p, r, number(coefficient).expand_as(a))
    whole = shifted.view(torch.int32) - 0x4B400000
    half = whole >> 1

    def power(exponent):
        return ((exponent + 127) << 23).view(torch.float32)

    return p * power(half) * power(whole - half)


def _sigmoid(z):
    e = _exp_of_negative(z.abs())
    one = torch.ones_like(e)
    return torch.where(z < 0, e, one) / (one + e)


def fused_engram_gate(call, capability):
    x, weights = call["x"].float(), call["q_weight"].float() * call["k_weight"].float()
    tokens, streams, width = x.shape
    kv = call["kv"].float().reshape(tokens, streams + 1, width)
    key, value = kv[:, :-1], kv[:, -1:]
    out = torch.empty_like(x)
    root = sqrt(torch.full((), width, dtype=torch.float32, device=x.device))
    scale = torch.ones_like(root) / root
    for token in range(0, tokens, 256):
        part = slice(token, token + 256)
        dot, means = row_sum(x[part] * weights, key[part]), []
        for rows in (x[part], key[part]):
            mean = divide(row_sum(rows, rows), width)
            means.append(rsqrt(mean + constant(call["eps"], mean)))
        dot = dot * (means[0] * means[1]) * scale
        clamp = constant(call["clamp"], dot)
        size = torch.where(dot.abs() < clamp, clamp, dot.abs())
        gate = _sigmoid(torch.copysign(sqrt(size), dot))
        out[part] = x[part] + gate[..., None] * value[part]
    return {"out": out.to(call["x"].dtype)}
