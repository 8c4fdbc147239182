"""Section 2: norms, hyper-connections and MXFP8, bit for bit."""

import torch

from .exact import chunks, constant, divide, fma, row_sum, rsqrt

_ROWS = 2048  # At a time.
_LARGEST = 448.0  # Of e4m3.


def _by_rows(function, *tensors):
    parts = [function(*(tensor[rows] for tensor in tensors)) for rows in chunks(tensors[0].shape[0], _ROWS)]
    return torch.cat(parts) if parts else function(*tensors)


def _normalised(x, w, eps):
    """(x * inv) * w of fp32 rows, before any rounding to the output's type."""
    mean = divide(row_sum(x, x), x.shape[-1])
    inverse = rsqrt(mean + constant(eps, mean))
    return (x * inverse[..., None]) * w


def _rmsnorm(x, w, eps):
    return _by_rows(lambda rows: _normalised(rows.float(), w.float(), eps).bfloat16(), x)


def _combined(x, pre):
    streams = x.unflatten(1, (4, -1)).float()
    weights = pre.float()
    total = torch.zeros_like(streams[:, 0])
    for stream in range(4):
        total = fma(streams[:, stream], weights[:, stream, None], total)
    return total.bfloat16()


def _hc_combine_norm(call):
    y = _by_rows(_combined, call["x"], call["pre"])
    return _rmsnorm(y, call["w"], call["eps"])


def _scale_bytes(largest):
    """e8m0, rounded towards +infinity, of the largest magnitude of each group."""
    n = largest * constant(1 / _LARGEST, largest)
    bits = n.view(torch.int32)
    exponent = bits >> 23 & 0xFF
    mantissa = bits & 0x7FFFFF
    up = torch.where(exponent == 0, mantissa > 0x400000, mantissa != 0)
    scale = torch.clamp(exponent + up.to(torch.int32), max=254)
    return torch.where(n <= 0, torch.zeros_like(scale), scale)


def _e4m3(values, scale):
    shift = torch.where((scale == 0) | (scale == 254), torch.full_like(scale, 254), scale)
    multiplier = torch.where(shift == 254, torch.zeros_like(scale), (254 - shift) << 23).view(torch.float32)
    product = values * multiplier[..., None]
    bounded = torch.clamp(product, -_LARGEST, _LARGEST)
    bounded = torch.where(torch.isnan(product), constant(_LARGEST, bounded), bounded)
    return bounded.to(torch.float8_e4m3fn)


def _swizzled(scale):
    """Bytes of [m, groups] in the 128x4 swizzle; those that belong to no row and group are 0."""
    m, groups = scale.shape
    width = -(-groups // 4) * 4
    row = torch.arange(m, device=scale.device)[:, None]
    group = torch.arange(groups, device=scale.device)[None]
    place = row // 128 * (width * 128) + group // 4 * 512 + (row % 32 * 4 + row // 32 % 4) * 4 + group % 4
    flat = torch.zeros(-(-m // 128) * 128 * width, dtype=torch.uint8, device=scale.device)
    flat[place.flatten()] = scale.flatten().to(torch.uint8)
    return flat


def _quantized(x):
    values = x.float().unflatten(1, (-1, 32))
    # A NaN is dropped in favour of a number; a group of nothing else stays NaN.
    magnitude = values.abs()
    largest = torch.where(torch.isnan(magnitude), constant(-1, magnitude), magnitude).amax(-1)
    largest = torch.where(largest < 0, constant(float("nan"), largest), largest)
    scale = _scale_bytes(largest)
    return {"q": _e4m3(values, scale).flatten(1), "sf": _swizzled(scale)}


def rmsnorm(call, capability):
    return {"y": _rmsnorm(call["x"], call["w"], call["eps"])}


def mxfp8_quantize(call, capability):
    return _quantized(call["x"])


def rmsnorm_mxfp8(call, capability):
    y = _rmsnorm(call["x"], call["w"], call["eps"])
    return {"y": y, **_quantized(y)}


def hc_combine_norm(call, capability):
    return {"y": _hc_combine_norm(call)}


def hc_combine_norm_mxfp8(call, capability):
    y = _hc_combine_norm(call)
    return {"y": y, **_quantized(y)}


def mhc_post_split_h(call, capability):
    def tokens(x, residual, post, comb):
        residual = residual.float()
        weight = comb[..., None]
        total = fma(post[..., None], x.float()[:, None], weight[:, 0] * residual[:, 0, None])
        for stream in range(1, 4):
            total = fma(weight[:, stream], residual[:, stream, None], total)
        return total.bfloat16()

    return {"out": _by_rows(tokens, call["x"], call["residual"], call["post"], call["comb"])}


def rmsnorm_fp32(call, capability):
    x = call["x"]
    rows = x.reshape(-1, x.shape[-1]) if x.numel() else x.reshape(0, x.shape[-1])
    y = _by_rows(lambda part: _normalised(part.float(), call["w"].float(), call["eps"]), rows)
    return {"y": y.reshape(x.shape).to(x.dtype)}
