"""What is remembered of the outputs that calls leave out. tests/torch_ops/test_outputs.py has torch make them."""

from __future__ import annotations

import dataclasses

import pytest

import kiln
from kiln import _outputs, _registry
from kiln._outputs import layouts
from kiln._registry import parse_dim

GEMM = _registry.op("n128k512_gemm_bf16")


def test_extents_and_strides_follow_from_the_shapes_of_the_inputs():
    op = _registry.op("rmsnorm_fp32")
    for _ in range(2):
        assert layouts(GEMM)((3, 512)) == (((3, 128), (128, 1)),)
        assert layouts(GEMM)((5, 512)) == (((5, 128), (128, 1)),)
        assert layouts(GEMM)((0, 512)) == (((0, 128), (128, 1)),)
        assert layouts(op)((2, 0, 64)) == (((2, 0, 64), (64, 64, 1)),)
        assert layouts(op)((64,)) == (((64,), (1,)),)


def test_what_is_wrong_is_said_each_time():
    for _ in range(2):
        with pytest.raises(
            kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "x" must have the shape \\[m, 512\\], found 1 axes'
        ):
            layouts(GEMM)((512,))


def test_only_so_many_shapes_are_remembered():
    of = layouts(GEMM)
    for m in range(2 * _outputs.SHAPES):
        assert of((m, 512)) == (((m, 128), (128, 1)),)
    remembered = of.cache_info()
    assert remembered.currsize == remembered.maxsize == _outputs.SHAPES
    assert layouts.cache_info().maxsize == 1024


def test_another_op_of_the_same_name_has_shapes_of_its_own():
    wider = dataclasses.replace(GEMM.arg("out"), shape=(parse_dim("m"), parse_dim(256)))
    other = dataclasses.replace(GEMM, args=tuple(wider if arg.name == "out" else arg for arg in GEMM.args))
    assert other != GEMM
    for _ in range(2):
        assert layouts(other)((3, 512)) == (((3, 256), (256, 1)),)
        assert layouts(GEMM)((3, 512)) == (((3, 128), (128, 1)),)


def test_without_torch_nothing_is_made_by_it(machine, engine):
    # Nobody but torch's types take the short way, and a number or nothing in a tensor's place goes the long one.
    for wrong, said in ((None, "found none"), (3, "is no tensor")):
        with pytest.raises(kiln.InvalidArgumentError, match=f'n128k512_gemm_bf16: argument "x": .*{said}'):
            kiln.n128k512_gemm_bf16(wrong, wrong)
    assert machine.launches() == []
