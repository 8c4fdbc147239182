"""The project's own C++ references, called on tensors of the host.

KILN_REFERENCE_CASES names the shared object that tests/reference_cases builds.
"""

import ctypes
import json
import os
from functools import cache

import torch
from expected import NAMES, outputs_of, symbols_of


def path():
    return os.environ.get("KILN_REFERENCE_CASES")


@cache
def _library():
    library = ctypes.CDLL(path())
    library.kiln_case_create.restype = ctypes.c_void_p
    library.kiln_case_error.restype = ctypes.c_char_p
    return library


def _bytes(tensor):
    """The elements of a contiguous tensor of the host, as an address and a size."""
    return ctypes.c_void_p(tensor.data_ptr()), ctypes.c_size_t(tensor.numel() * tensor.element_size())


class _Case:
    """A call in the shared object; destroyed on leaving."""

    def __init__(self, request):
        self._call = ctypes.c_void_p(_library().kiln_case_create(json.dumps(request).encode()))
        self.check(self._call.value is not None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _library().kiln_case_destroy(self._call)

    @staticmethod
    def check(done):
        if not done:
            raise RuntimeError(_library().kiln_case_error().decode())

    def set(self, name, tensor):
        packed = tensor.contiguous()  # Held until the call returns.
        self.check(_library().kiln_case_set(self._call, name.encode(), *_bytes(packed)))

    def get(self, name, tensor):
        self.check(_library().kiln_case_get(self._call, name.encode(), *_bytes(tensor)))
        return tensor

    def run(self, capability):
        self.check(_library().kiln_case_run(self._call, *capability))


def expected(op, call, capability=(9, 0)):
    """What the C++ reference gives, by output; tensors that are changed in place among them."""
    outputs = outputs_of(op, call)
    tensors = {name: value for name, value in call.args.items() if isinstance(value, torch.Tensor)}
    dtypes = {name: NAMES[value.dtype] for name, value in tensors.items()}
    dtypes |= {name: NAMES[dtype] for name, (_, dtype) in outputs.items()}
    given = set(call.args) | set(call.wanted)
    request = {
        "op": op.name,
        "dims": symbols_of(op, call)[0],
        "dtypes": dtypes,
        "scalars": {name: value for name, value in call.args.items() if not isinstance(value, torch.Tensor)},
        "with": sorted(arg.name for arg in op.args if arg.optional and arg.name in given),
    }
    with _Case(request) as case:
        for name, tensor in tensors.items():
            case.set(name, tensor)
        case.run(capability)
        changed = {arg.name: (tensors[arg.name].shape, tensors[arg.name].dtype) for arg in op.mutated if arg.name in tensors}
        return {name: case.get(name, torch.empty(shape, dtype=dtype)) for name, (shape, dtype) in (outputs | changed).items()}
