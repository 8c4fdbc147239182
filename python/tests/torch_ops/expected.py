"""What a call's outputs are: shapes and types from the registry, values from the references in torch."""

import torch
from references import reference_of

from kiln import _shapes

NAMES = {
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float8_e4m3fn: "e4m3",
    torch.float8_e8m0fnu: "e8m0",
    torch.uint8: "u8",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
    torch.complex64: "complex64",
}
DTYPES = {name: dtype for dtype, name in NAMES.items()}


def symbols_of(op, call):
    """Every symbol of the op's shapes; 0 where no argument of the call has it."""
    shapes = {name: tuple(value.shape) for name, value in call.args.items() if isinstance(value, torch.Tensor)}
    symbols, leading = _shapes.bind(op.inputs, shapes)
    return {**dict.fromkeys(_shapes.bound_symbols(op.args), 0), **symbols, **call.extents}, leading


def outputs_of(op, call):
    """Shape and dtype of every output of the call."""
    symbols, leading = symbols_of(op, call)
    out = {}
    for arg in op.outputs:
        if arg.optional and arg.name not in call.wanted:
            continue
        source = _shapes.dtype_source(op, arg)
        dtype = call.dtypes.get(arg.name, call.args[source].dtype if source else DTYPES[arg.dtypes[0]])
        out[arg.name] = (_shapes.output_shape(arg, symbols, leading), dtype)
    return out


def expected(op, call, capability=(9, 0)):
    """The outputs by name, and what tensors that are changed in place become."""
    given = {**call.args, **{f"@{name}": value for name, value in call.extents.items()}}
    values = reference_of(op.name)(given, capability)
    types = {name: dtype for name, (_, dtype) in outputs_of(op, call).items()}
    types |= {arg.name: call.args[arg.name].dtype for arg in op.mutated if arg.name in call.args}
    # Integers are worked out in 64 bits, and bytes as bytes.
    return {
        name: values[name].to(dtype) if dtype in (torch.int32, torch.int64) else values[name].view(dtype) for name, dtype in types.items()
    }
