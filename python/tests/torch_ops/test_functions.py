"""The functions of the package on torch's tensors, up to the launch. Needs no GPU."""

import dataclasses
import functools

import pytest
import torch
from calls import Outputs, by_function, some
from expected import expected

import kiln
from kiln import _calls, _engine, _registry, _shapes, _signature

ALLOCATING = [op.name for op in _registry.ops() if _shapes.allocatable(op)]


WAYS = {"function": lambda name: getattr(kiln, name), "by name": lambda name: functools.partial(kiln.launch, name)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ALLOCATING)
def test_outputs_that_are_left_out_are_made_and_handed_to_the_launcher(name, way, monkeypatch):
    op, launched = _registry.op(name), []
    for launchers in (_engine.fast, kiln.default_engine().launchers):
        monkeypatch.setitem(vars(launchers), name, lambda *values: launched.append(values))
    _calls.admit(torch.Tensor, torch)  # As the first call does.
    for call in some(name):
        call = dataclasses.replace(call, dtypes={})  # What is made has the usual type.
        want, given = expected(op, call), by_function(op, call, Outputs(op, call, "cpu"))
        returned = WAYS[way](name)(**given)
        (values,) = launched
        launched.clear()
        by_name = dict(zip((arg.name for arg in op.args), values))
        assert all(by_name[key] is value for key, value in given.items())
        for arg in _shapes.allocatable(op):
            assert (by_name[arg.name].shape, by_name[arg.name].dtype) == (want[arg.name].shape, want[arg.name].dtype), str(call)
        for arg, tensor in zip(_signature.returned(op), returned if isinstance(returned, tuple) else (returned,)):
            assert tensor is by_name[arg.name]


def test_what_is_wrong_with_an_input_is_said_of_it_where_the_output_is_left_out():
    x, w = torch.zeros(3, 512).bfloat16(), torch.zeros(128, 512).bfloat16()
    for _ in range(2):  # The first call of a type goes the long way.
        with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "x": expected a tensor on a CUDA device'):
            kiln.n128k512_gemm_bf16(x, w)
        with pytest.raises(
            kiln.InvalidArgumentError, match=r'n128k512_gemm_bf16: argument "x" must have the shape \[m, 512\], found 1 axes'
        ):
            kiln.n128k512_gemm_bf16(x[0], w)
        with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "x": .*meta'):
            kiln.n128k512_gemm_bf16(x.to("meta"), w)
