"""What the contracts allow an op whose order of steps is its own: bounds around an exact value, in fp64."""

import torch


def ulp(values, dtype):
    """The step between values of the type in the binade of each fp64 value; at least the smallest subnormal."""
    digits, least, most = {torch.bfloat16: (7, -126, 127), torch.float32: (23, -126, 127)}[dtype]
    exponent = torch.frexp(values).exponent - 1
    exponent = torch.where(values == 0, torch.full_like(exponent, least), exponent).clamp(least, most)
    return torch.ldexp(torch.ones_like(values), exponent - digits)


def gemm_outside(got, x, w):
    """How many products lie more than 1 bf16 ulp and 2^-20 of the sum of magnitudes from the exact ones."""
    exact = x.double() @ w.double().T
    magnitudes = x.double().abs() @ w.double().abs().T
    bound = ulp(exact, got.dtype) + magnitudes * 2.0**-20
    return int(((got.double() - exact).abs() > bound).sum())


def gate_is_bound(call):
    """Whether the range says anything: it takes no account of products that vanish in fp32, and the sign of none of them is left."""
    return call["x"].numel() > 0 and float(call["x"].double().abs().amax()) > 1e-10


def gate_outside(got, call):
    """How many elements of fused_engram_gate lie outside the range that its contract gives."""
    x = call["x"].double()
    tokens, streams, width = x.shape
    kv = call["kv"].double().reshape(tokens, streams + 1, width)
    key, value = kv[:, :-1], kv[:, -1:]
    terms = x * (call["q_weight"].double() * call["k_weight"].double()) * key
    eps = torch.tensor(call["eps"], dtype=torch.float32).item()
    rstd = 1 / ((x * x).mean(-1) + eps).sqrt() / ((key * key).mean(-1) + eps).sqrt()
    scale = rstd * width**-0.5
    dot, error = terms.sum(-1) * scale, terms.abs().sum(-1) * scale * 2.0**-20

    def out(dot):
        clamp = torch.tensor(call["clamp"], dtype=torch.float32).item()
        gate = torch.sigmoid(torch.copysign(dot.abs().clamp(min=clamp).sqrt(), dot))[..., None]
        return x + gate * value, (gate * value).abs()

    # The gate grows with the dot product, and jumps where that changes its sign.
    ends = [out(dot - error), out(dot + error)]
    low, high = torch.minimum(ends[0][0], ends[1][0]), torch.maximum(ends[0][0], ends[1][0])
    slack = ulp(torch.maximum(low.abs(), high.abs()), got.dtype) + torch.maximum(ends[0][1], ends[1][1]) * 2.0**-18
    result = got.double()
    return int(((result < low - slack) | (result > high + slack)).sum())
