import torch

from .draw import FEW_ROWS, ROWS, Call, skewed, spaced

INF, NAN = float("inf"), float("nan")


def _values(draw, kind, *shape):
    if kind == "normal":
        return draw.normal(*shape, dtype=torch.float32)
    if kind == "bits":
        return draw.bits(torch.float32, *shape)
    if kind == "narrow":
        return 1 + 1e-6 * draw.integers(0, 49, *shape).float()
    kinds = {"special": [-INF, INF, NAN, -NAN, 0.0, -0.0, 1.0, -1.0], "few": [-1.0, 0.0, 1.0], "nothing": [-INF], "equal": [2.5]}
    return draw.pick(kinds[kind], *shape)


def _lens(draw, rows, width, wide=True):
    """0, negative, beyond the row, or anything between."""
    odd = draw.pick([0, -3, width, width + 9], rows, dtype=torch.int64)
    lens = torch.where(draw.integers(0, 1, rows) == 0, odd, draw.integers(0, width, rows))
    return lens if wide else lens.int()


def row_lens(op, draw, full):
    for rows in (ROWS if full else FEW_ROWS) + (0,):
        for block in (1, 7, 8, 64, 1 << 30):
            for topk in (1, 2048):
                lens = draw.integers(-1000, 299_000, rows)
                lens[:1] = torch.iinfo(torch.int32).max
                lens = lens if block % 2 else lens.int()
                args = {"seq_lens": lens, "topk_blocks": topk, "block_size": block}
                yield Call(op, f"rows={rows} block={block} topk={topk}", args)


def _shapes(full):
    """(rows, width, block, topk, gap, kind)"""
    for rows in ROWS if full else FEW_ROWS:
        wide = rows <= 97 and full
        yield rows, 4096 if wide else 200, 8, 100 if wide else 9, rows % 4 * 4, "normal"
    blocks = (1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 33, 64, 127, 128, 129, 300, 2047, 2048, 2049, 5000)
    for block in blocks:
        for width in (1, 5, 1003, 4100):
            yield 3, width, block, block % 5 + 1, block % 6, "special"
    for kind in ("equal", "nothing", "special", "few"):
        for topk in (1, 2, 511, 512, 513, 1023, 1024, 8192, 40_000) if full else (1, 512):
            yield 3, 40_000 if full else 5000, 4, topk, 4, kind
    if full:
        for kind in ("normal", "bits", "few", "narrow"):
            yield 4, 131_072, 8, 2048, 0, kind
            yield 1, 131_072, 1, 2048, 0, kind
            yield 70, 20_000, 1, 2048, 0, kind
            yield 2, 300_003, 1, 5000, 1, kind
    yield 0, 64, 8, 2, 0, "normal"


def _logits(draw, rows, width, gap, kind):
    return spaced(_values(draw, kind, rows, width), gap, NAN)


def scores(op, draw, full):
    for rows, width, block, _, gap, kind in _shapes(full):
        args = {"logits": _logits(draw, rows, width, gap, kind), "seq_lens": _lens(draw, rows, width, rows % 2 == 0)}
        label = f"[{rows}, {width}] block={block} gap={gap} {kind}"
        yield Call(op, label, args | {"block_size": block}, {"b": -(-width // block)})


def select(op, draw, full):
    for rows, width, block, topk, _, kind in _shapes(full):
        blocks = -(-width // block)
        k = min(topk, blocks)
        args = {"scores": _values(draw, kind, rows, blocks)}
        yield Call(op, f"[{rows}, {blocks}] k={k} {kind}", args, {"k": k})
    yield Call(op, "of nothing nothing", {"scores": _values(draw, "normal", 3, 5)}, {"k": 0})


def publish(op, draw, full):
    for rows, width, block, topk, *_ in _shapes(full):
        blocks = -(-width // block)
        k = min(topk, blocks)
        keys = torch.rand(rows, blocks, generator=draw.generator, device=draw.device)
        indices = keys.argsort(1)[:, :k].int()
        odd = draw.integers(0, 9, rows, k) == 0
        indices = torch.where(odd, draw.pick([-1, blocks, 2**31 - 1, -(2**31)], rows, k, dtype=torch.int32), indices)
        args = {"indices": indices, "values": _values(draw, "special", rows, k), "block_size": block}
        yield Call(op, f"[{rows}, {width}] block={block} k={k}", args, {"width": width})


def logits(op, draw, full):
    for number, (rows, width, block, topk, gap, kind) in enumerate(_shapes(full)):
        args = {"logits": _logits(draw, rows, width, gap, kind), "seq_lens": _lens(draw, rows, width, rows % 2 == 0)}
        args |= {"topk_blocks": topk, "block_size": block}
        label = f"[{rows}, {width}] block={block} topk={topk} gap={gap} {kind}"
        yield Call(op, label, args, wanted=("keep",))
        if number % 3 == 0 or full:
            published = draw.integers(0, 7, rows, width) == 0
            yield Call(op, label + " published", args | {"published": published})


def logits_of_many_rows(op, draw, full):
    """More rows than a device has room for at once."""
    for rows, width, block in ((300, 40, 8), (513, 201, 7)) + (((5000, 1003, 8),) if full else ()):
        args = {"logits": _logits(draw, rows, width, 4, "few"), "seq_lens": _lens(draw, rows, width), "topk_blocks": 3, "block_size": block}
        yield Call(op, f"[{rows}, {width}] block={block}", args, wanted=("keep",))


def pages(op, draw, full):
    counts = [(rows, 64, 1000, 64) for rows in (ROWS if full else FEW_ROWS)]
    more = [(3, 5, 77, 1), (3, 2048, 4096, 3), (2, 33, 10, 16), (4, 0, 10, 16), (0, 8, 10, 16), (2, 9, 1, 1)]
    for number, (rows, k, width, size) in enumerate(counts + more):
        for wide in range(8) if full or number == 0 else (number % 8,):
            yield _pages_call(op, draw, rows, k, width, size, wide, gap=number % 3)


def _pages_call(op, draw, rows, k, width, size, wide, gap):
    index_type, page_type, raw_type = (torch.int64 if wide & bit else torch.int32 for bit in (1, 2, 4))
    odd = draw.pick([-1, width, 0, width - 1, 2**31 - 1, -(2**31)], rows, k, dtype=torch.int64)
    inside = draw.integers(0, width - 1, rows, k)
    indices = torch.where(draw.integers(0, 3, rows, k) == 0, odd, inside).to(index_type)
    if indices.numel() and index_type == torch.int64:
        indices[0, 0] = 2**32  # 0, were it cut to 32 bits.
    table = draw.integers(0, 100_000, rows, -(-width // size) + wide % 2, dtype=torch.int32)
    scores = draw.pick([-INF, INF, NAN, 0.5, -0.5, torch.finfo(torch.float32).min], rows, width)
    args = {"scores": spaced(scores, gap), "indices": spaced(indices, gap), "page_table": spaced(table, gap)}
    label = f"rows={rows} k={k} width={width} page_size={size} wide={wide:03b} gap={gap}"
    return Call(
        op,
        label,
        args | {"page_size": size},
        wanted=("raw_indices",) if wide % 3 else (),
        dtypes={"page_indices": page_type, "raw_indices": raw_type},
        gaps={"page_indices": gap, "raw_indices": gap},
    )


def schedule(op, draw, full):
    for requests in ROWS + (127, 128, 129) if full else FEW_ROWS:
        for partitions in (1, 2, 31, 132, 264):
            lens = draw.integers(0, 20_000, requests, dtype=torch.int32)
            yield _schedule_call(op, requests, partitions, {"seqlens_k": lens, "topk": -1}, 64, 5)
    for _ in range(200 if full else 60):
        yield _random_schedule(op, draw, 4096 if full else 300)


def _schedule_call(op, requests, partitions, args, block, overhead):
    args = args | {"block_size_n": block, "fixed_overhead_num_blocks": overhead}
    extents = {"n": requests + 1, "p": partitions}
    label = f"requests={requests} partitions={partitions} block={block} overhead={overhead} topk={args['topk']}"
    return Call(op, label, args, extents)


def _random_schedule(op, draw, most):
    def below(end):
        return int(draw.integers(0, end - 1, 1).item())

    requests = 1 + below(4) if draw.coin() else 1 + below(most)
    longest = (1, 5, 200, 5000, 131_072)[below(5)]

    def lengths():
        drawn = draw.integers(0, longest, requests, dtype=torch.int32)
        return torch.where(draw.integers(0, 7, requests) == 0, torch.zeros_like(drawn), drawn)

    args = {"topk": -1 if draw.coin() else (2048, 0, 1 + below(500))[below(3)]}
    if args["topk"] == -1 or draw.coin():
        args["seqlens_k"] = lengths()
    if draw.coin():
        args["topk_length"] = lengths()
    if draw.coin():
        args["extra_topk"] = 1 + below(600)
    if draw.coin():
        args["extra_topk_length"] = lengths()
    block = 64 if draw.coin() else 1 + below(128)
    return _schedule_call(op, requests, 1 + below(264), args, block, below(40) if draw.coin() else 5)


def argmax(op, draw, full):
    for rows in (ROWS if full else FEW_ROWS) + (0,):
        yield _argmax_call(op, draw, rows, 1000 if rows > 97 else 5003, rows % 3, "normal")
    for n in (1, 2, 5, 31, 1000, 20_011) + ((129_280, 262_144) if full else ()):
        for kind in ("normal", "special", "few", "nothing", "equal", "bits"):
            yield _argmax_call(op, draw, 5, n, n % 4, kind)


def argmax_of_long_rows(op, draw, full):
    """More than a cluster takes."""
    for rows, n in ((1, 600_000), (3, 700_001)) + (((5, 3_000_001),) if full else ()):
        for kind in ("few", "special"):
            yield _argmax_call(op, draw, rows, n, n % 4, kind)


def _argmax_call(op, draw, rows, n, gap, kind):
    x = spaced(_values(draw, kind, rows, n), gap)
    if gap == 0 and n % 2:
        x = skewed(x)
    return Call(op, f"[{rows}, {n}] gap={gap} {kind}", {"x": x})


GROUPS = {
    "candidate_row_lens": (row_lens,),
    "candidate_block_scores": (scores,),
    "candidate_select_blocks": (select,),
    "publish_candidate_mask": (publish,),
    "candidate_block_logits": (logits, logits_of_many_rows),
    "filter_topk_pages": (pages,),
    "flashmla_sched_meta": (schedule,),
    "row_argmax": (argmax, argmax_of_long_rows),
}
