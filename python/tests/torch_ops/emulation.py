"""Kernels of the operators for the CPU, made of the references: a stand-in for the GPU's, so that all that PyTorch makes of an operator can
be run where there is none."""

import torch
from references import reference_of

from kiln import _registry, _shapes
from kiln.torch._register import implement


def launcher(op):
    def launch(*values):
        args = {arg.name: value for arg, value in zip(op.args, values) if value is not None}
        shapes = {name: tuple(value.shape) for name, value in args.items() if isinstance(value, torch.Tensor)}
        symbols, _ = _shapes.bind(op.args, shapes)
        results = reference_of(op.name)({**args, **{f"@{name}": value for name, value in symbols.items()}}, (9, 0))
        for arg in op.mutated:
            if arg.name in args:
                args[arg.name].copy_(_typed(results[arg.name], args[arg.name].dtype))

    return launch


def _typed(result, dtype):
    return result.to(dtype) if dtype in (torch.int32, torch.int64) else result.view(dtype)


def install():
    """Returns what must be kept for as long as the kernels are needed."""
    library = torch.library.Library("kiln", "IMPL")
    for op in _registry.ops():
        implement(op, launcher(op), "CPU", library)
    return library
