"""Sections 3 and 5: blocks of positions, pages, the split-KV schedule and the argmax of rows."""

import torch

from .exact import constant

_INFINITY = float("inf")
_GREATEST = torch.iinfo(torch.int32).max


def _blocks(width, block):
    return -(-width // block)


def _key(values):
    """Integers in the order of fp32 values: NaN above all, -0 below +0."""
    bits = values.view(torch.int32)
    ordered = bits ^ (bits >> 31 & 0x7FFFFFFF)
    return torch.where(torch.isnan(values), torch.full_like(bits, _GREATEST), ordered)


def _value(key):
    return (key ^ (key >> 31 & 0x7FFFFFFF)).view(torch.float32)


def _lengths(seq_lens, width):
    return seq_lens.long().clamp(0, width)[:, None]


def _visible(logits, seq_lens):
    position = torch.arange(logits.shape[1], device=logits.device)[None]
    return position < _lengths(seq_lens, logits.shape[1])


def _masked(logits, kept):
    return torch.where(kept, logits, constant(-_INFINITY, logits))


def _scores(out, seq_lens, block):
    rows, width = out.shape
    count = _blocks(width, block)
    padded = torch.full((rows, count * block), -_INFINITY, device=out.device)
    padded[:, :width] = out
    scores = _value(_key(padded.view(rows, count, block)).amax(-1)) if count else padded.view(rows, 0)
    last = (_lengths(seq_lens, width) - 1) // block
    holds_last = torch.arange(count, device=out.device)[None] == last
    return torch.where(holds_last & (last >= 0), constant(_INFINITY, scores), scores)


def _select(scores, k):
    key = _key(scores + constant(0, scores))  # Zeros of both signs are equal.
    order = torch.sort(key, dim=1, descending=True, stable=True).indices
    indices = order[:, :k].sort(dim=1).values
    return indices.int(), scores.gather(1, indices)


def _publish(indices, values, block, width):
    count = _blocks(width, block)
    valid = (indices >= 0) & (indices < count) & (values > -_INFINITY)
    kept = torch.zeros(indices.shape[0], count + 1, dtype=torch.bool, device=indices.device)
    kept.scatter_(1, torch.where(valid, indices, torch.full_like(indices, count)).long(), True)
    position = torch.arange(width, device=indices.device)
    return kept[:, position // block]


def candidate_row_lens(call, capability):
    block, topk = call["block_size"], call["topk_blocks"]
    length = call["seq_lens"].long().clamp(min=0, max=_GREATEST)
    nblocks = (length + block - 1) // block
    valid = block * (nblocks.clamp(max=topk) - 1) + (length - 1) % block + 1
    valid = torch.where(length > 0, valid, torch.zeros_like(valid))
    return {"nblocks": nblocks.int(), "valid": valid.int()}


def candidate_block_scores(call, capability):
    out = _masked(call["logits"], _visible(call["logits"], call["seq_lens"]))
    return {"out": out, "scores": _scores(out, call["seq_lens"], call["block_size"])}


def candidate_select_blocks(call, capability):
    indices, values = _select(call["scores"], call["@k"])
    return {"indices": indices, "values": values}


def publish_candidate_mask(call, capability):
    return {"keep": _publish(call["indices"], call["values"], call["block_size"], call["@width"])}


def candidate_block_logits(call, capability):
    logits, seq_lens, block = call["logits"], call["seq_lens"], call["block_size"]
    visible = _visible(logits, seq_lens)
    if call.get("published") is not None:
        return {"out": _masked(logits, visible & call["published"])}
    out = _masked(logits, visible)
    scores = _scores(out, seq_lens, block)
    indices, values = _select(scores, min(call["topk_blocks"], scores.shape[1]))
    return {"out": out, "keep": _publish(indices, values, block, logits.shape[1])}


def filter_topk_pages(call, capability):
    scores, indices, table, size = (call[name] for name in ("scores", "indices", "page_table", "page_size"))
    width = scores.shape[1]
    wide = indices.long()
    inside = (wide >= 0) & (wide < width)
    looked_up = torch.where(inside, wide, torch.zeros_like(wide))
    valid = inside if width == 0 else inside & (scores.gather(1, looked_up) > -_INFINITY)
    none = torch.full_like(wide, -1)
    paged = none if width == 0 else table.long().gather(1, looked_up // size) * size + looked_up % size
    return {
        "page_indices": torch.where(valid, paged, none),
        "raw_indices": torch.where(valid, wide, none),
    }


def _schedule_lengths(call, requests):
    def given(name, otherwise):
        return [otherwise] * requests if call.get(name) is None else call[name].tolist()

    if call["topk"] == -1:
        return given("seqlens_k", None)
    lengths = [length or 1 for length in given("topk_length", call["topk"])]
    extra = call.get("extra_topk") or 0
    if not extra:
        return lengths
    block = call["block_size_n"]
    return [-(-a // block) * block + b for a, b in zip(lengths, given("extra_topk_length", extra))]


def _taken(place, remain, rest_of, requests, overhead, num_splits):
    """Where a partition that can pay for `remain` blocks stops: (request, block, split)."""
    request, block, split = place
    while request < requests:
        rest = rest_of(request) - block
        if remain < rest + overhead:
            if remain - overhead > 0:
                return request, block + remain - overhead, split + 1
            break
        remain -= rest + overhead
        num_splits.append(num_splits[-1] + split + 1)
        request, block, split = request + 1, 0, 0
    return request, block, split


def flashmla_sched_meta(call, capability):
    requests, partitions = call["@n"] - 1, call["@p"]
    lengths = _schedule_lengths(call, requests)
    size, overhead = call["block_size_n"], call["fixed_overhead_num_blocks"]
    blocks = [max(length - 1, 0) // size + 1 for length in lengths]
    payload = -(-sum(count + overhead for count in blocks) // partitions) + overhead
    num_splits, meta, place = [0], [], (0, 0, 0)
    for _ in range(partitions):
        request, block, split = place
        idle = request == requests
        place = _taken(place, payload, blocks.__getitem__, requests, overhead, num_splits)
        open_block = place[1]
        end = place[0] if open_block else place[0] - 1
        end_block = open_block or (0 if lengths[end] == 0 else blocks[end])
        begins_inside = int(block != 0)
        ends_inside = int(lengths[end] != 0 and end_block != blocks[end])
        if request == end:
            begins_inside = ends_inside = begins_inside | ends_inside
        begin_block = blocks[0] - 1 if idle else block
        meta.append([request, end, begin_block, end_block, split, begins_inside, ends_inside, 0])
    # On the host, where it was worked out.
    return {"meta": torch.tensor(meta, dtype=torch.int32), "num_splits": torch.tensor(num_splits, dtype=torch.int32)}


def row_argmax(call, capability):
    x = call["x"]
    nan = torch.isnan(x)
    largest = torch.where(nan, constant(-_INFINITY, x), x).amax(1, keepdim=True)
    best = torch.where(nan.any(1, keepdim=True), nan, x == largest)
    place = torch.arange(x.shape[1], device=x.device)[None].expand_as(x)
    return {"out": torch.where(best, place, torch.full_like(place, x.shape[1])).amin(1)}
