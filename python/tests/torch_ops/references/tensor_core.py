"""What the tensor cores of sm_90 make of 16 products of bf16, bit for bit: reference/tensor_core.hpp in torch."""

import torch

_FRACTION = 7  # Bits of bf16's.
_BIAS = 127
_KEPT = 25  # Bits of a product below the largest exponent.
_NONE = -(2**20)  # An exponent below all others.


def _parts(values):
    """Mantissa and exponent: mantissa * 2^(exponent - 7)."""
    bits = values.view(torch.int16).to(torch.int64)
    field, fraction = bits >> _FRACTION & 0xFF, bits & 0x7F
    mantissa = torch.where(field == 0, fraction, fraction | 0x80)
    return torch.where(bits < 0, -mantissa, mantissa), field.clamp(min=1) - _BIAS


def _power_of_two(exponent):
    return (exponent + 1023 << 52).view(torch.float64)


def _cut_to_float(values):
    """Toward zero, which is +0; at and above 2^128 an infinity."""
    nearest = values.float()
    outward = (nearest.double().abs() > values.abs()) & (values.abs() < 2.0**128)
    cut = torch.where(outward, torch.nextafter(nearest, torch.zeros_like(nearest)), nearest)
    return torch.where(cut == 0, torch.zeros_like(cut), cut)


def tensor_core_sum(a, b):
    """The sum of a * b over the last axis of 16, of bf16 tensors that broadcast with each other, in fp32."""
    (left, left_exponent), (right, right_exponent) = _parts(a), _parts(b)
    product = left * right
    exponent = torch.where(product == 0, torch.full_like(product, _NONE), left_exponent + right_exponent)
    largest = exponent.amax(-1, keepdim=True)
    shift = exponent - largest + _KEPT - 2 * _FRACTION
    magnitude = product.abs() << shift.clamp(min=0) >> (-shift).clamp(0, 63)
    total = (magnitude * product.sign()).sum(-1)
    scale = _power_of_two((largest[..., 0] - _KEPT).clamp(min=-1000))
    plain = (a.double() * b.double()).sum(-1).float()  # An infinity or NaN, where a factor is one.
    finite = (torch.isfinite(a) & torch.isfinite(b)).all(-1)
    return torch.where(finite, _cut_to_float(total.double() * scale), plain)
