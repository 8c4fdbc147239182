"""Bit for bit, where two NaNs are equal whatever their bits."""

import torch

WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def bits(tensor):
    return tensor.contiguous().view(WHOLE[tensor.element_size()])


def _nan(tensor):
    if tensor.dtype == torch.float8_e8m0fnu or not tensor.dtype.is_floating_point:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return torch.isnan(tensor.float())


def difference(name, got, want):
    """Empty, or the first element that differs."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{name} is {got.dtype} {list(got.shape)}, expected {want.dtype} {list(want.shape)}"
    wrong = bits(got) != bits(want)
    if not wrong.any():
        return ""
    wrong &= ~(_nan(got) & _nan(want))
    places = wrong.nonzero()
    if not len(places):
        return ""
    first = tuple(places[0].tolist())
    digits = 2 * got.element_size()
    mine, theirs = (bits(tensor)[first].item() & (1 << 4 * digits) - 1 for tensor in (got, want))
    return (
        f"{name}: {len(places)} of {wrong.numel()} elements differ; {list(first)} is 0x{mine:0{digits}x} "
        f"({got[first].float().item() if got.dtype != torch.complex64 else ''}), expected 0x{theirs:0{digits}x}"
    )
