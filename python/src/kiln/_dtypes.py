"""Element types: as Kiln names them, and as DLPack and the array libraries do."""

from __future__ import annotations

from typing import Any, NamedTuple


class DType(NamedTuple):
    code: int  # DLPack's
    bits: int
    torch: str
    numpy: str  # As numpy or, for what numpy lacks, ml_dtypes names it.


# DLPack: 0 signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool, 10 float8_e4m3fn, 14 float8_e8m0fnu.
DTYPES = {
    "bf16": DType(4, 16, "bfloat16", "bfloat16"),
    "f32": DType(2, 32, "float32", "float32"),
    "e4m3": DType(10, 8, "float8_e4m3fn", "float8_e4m3fn"),
    "e8m0": DType(14, 8, "float8_e8m0fnu", "float8_e8m0fnu"),
    "u8": DType(1, 8, "uint8", "uint8"),
    "i32": DType(0, 32, "int32", "int32"),
    "i64": DType(0, 64, "int64", "int64"),
    "bool": DType(6, 8, "bool", "bool"),
    "complex64": DType(5, 64, "complex64", "complex64"),
}

_BY_NAME = {name: name for name in DTYPES} | {dtype.torch: name for name, dtype in DTYPES.items()}


class NoDtype(ValueError):
    """No element type of Kiln's."""


def dtype_name(dtype: Any) -> str:
    """Kiln's name of a dtype of torch, numpy, CuPy or JAX, or of a name of one: "bf16" for torch.bfloat16. ValueError where Kiln has none."""
    if isinstance(dtype, type):
        text = dtype.__name__  # A scalar type of numpy's.
    elif isinstance(dtype, str):
        text = dtype
    else:
        dtype = getattr(dtype, "dtype", dtype)  # JAX's scalar types have one.
        text = getattr(dtype, "name", None) or str(dtype)
    name = _BY_NAME.get(text.removeprefix("torch."))
    if name is None:
        raise NoDtype(f"Kiln has no element type {dtype!r}; it has {', '.join(DTYPES)}")
    return name
