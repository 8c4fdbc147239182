"""Shapes and dtypes of outputs."""

from __future__ import annotations

import pytest

import kiln
from kiln import TensorSpec, _registry
from kiln._extents import evaluate
from kiln._shapes import allocatable, dtype_source, output_shapes, shape_sources, sources


@pytest.mark.parametrize(
    ("expression", "symbols", "value"),
    [
        ("4*k", {"k": 96}, 384),
        ("n-1", {"n": 4}, 3),
        ("(n-1)*h", {"n": 4, "h": 8}, 24),
        ("ceil128(m)*ceil4(k/32)", {"m": 5, "k": 96}, 128 * 4),
        ("ceil128(m)*ceil4(k/32)", {"m": 129, "k": 160}, 256 * 8),
        ("ceil_div(m, 3) + max(m, 2)", {"m": 7}, 10),
        ("m - 9 / 2 * 2", {"m": 4}, -4),
        ("(m - 9) / 2", {"m": 4}, -2),
        ("(m - 9) % 2", {"m": 4}, -1),
        ("ceil_div(m - 9, 2)", {"m": 4}, -2),
        ("class + 010", {"class": 1}, 11),
    ],
)
def test_an_expression_is_worked_out_in_whole_numbers(expression, symbols, value):
    assert evaluate(expression, symbols) == value


def test_an_expression_has_no_builtins():
    with pytest.raises(NameError):
        evaluate("open(m)", {"m": 1})


def test_leading_axes_come_back():
    op = _registry.op("rmsnorm_fp32")
    assert output_shapes(op, {"x": (2, 3, 64), "w": (64,)}) == {"y": (2, 3, 64)}
    assert output_shapes(op, {"x": (64,), "w": (64,)}) == {"y": (64,)}


def test_a_wrong_rank_names_the_argument():
    with pytest.raises(ValueError, match='"x" must have the shape \\[m, 512\\]'):
        output_shapes(_registry.op("n128k512_gemm_bf16"), {"x": (512,), "w": (128, 512)})


def test_an_output_whose_extent_no_input_has_must_be_passed():
    assert [arg.name for arg in allocatable(_registry.op("candidate_select_blocks"))] == []
    assert [arg.name for arg in allocatable(_registry.op("rmsnorm_mxfp8"))] == ["y", "q", "sf"]


def test_an_optional_output_is_never_made():
    assert "keep" not in [arg.name for arg in allocatable(_registry.op("candidate_block_logits"))]


def test_an_output_takes_the_dtype_of_the_input_that_has_the_same_choice():
    op = _registry.op("rmsnorm_fp32")
    assert dtype_source(op, op.arg("y")) == "x"
    op = _registry.op("mxfp8_quantize")
    assert dtype_source(op, op.arg("q")) is None


@pytest.mark.parametrize(
    ("name", "shapes", "all_sources"),
    [
        ("n128k512_gemm_bf16", ["x"], ["x"]),
        ("hc_combine_norm", ["x", "w"], ["x", "w"]),
        ("engram_gather", ["weight", "ids"], ["weight", "ids"]),
        ("candidate_select_blocks", [], ["scores"]),
    ],
)
def test_outputs_follow_from_as_few_tensors_as_will_do(name, shapes, all_sources):
    op = _registry.op(name)
    assert [arg.name for arg in shape_sources(op)] == shapes
    assert [arg.name for arg in sources(op)] == all_sources


# What the contracts want beyond shapes: everything else is 32 of each symbol, 1 of each number, and no optional argument.
EXTENTS = {
    "engram_commit_history": {"k": 3},
    "engram_hash_ids": {"n": 4, "h": 8},
    "engram_hash_ids_and_commit": {"n": 4, "h": 8},
    "engram_gather": {"dim": 64, "groups": 2},
    "filter_topk_pages": {"k": 8, "p": 64, "width": 64},
    "wo_a_bf16_gemv": {"d": 256},
    "wo_a_bf16_small_batch": {"m": 16, "r": 64, "d": 512},
    "wo_a_bf16_small_batch_mxfp8": {"m": 16, "r": 64, "d": 512},
}
NUMBERS = {"topk": -1}
OPTIONAL = {"published", "seqlens_k"}


def spec(op: _registry.Op, arg: _registry.Arg) -> TensorSpec:
    extents = EXTENTS.get(op.name, {})
    names = {dim.symbol for each in op.args for dim in each.shape if dim.kind in ("symbol", "leading")}
    symbols = {name: extents.get(name, 32) for name in names}
    shape = tuple(
        dim.value if dim.kind == "fixed" else evaluate(dim.text, symbols) if dim.kind == "derived" else symbols[dim.symbol]
        for dim in arg.shape
    )
    return TensorSpec(shape, arg.dtypes[0])


@pytest.mark.parametrize("op", _registry.ops(), ids=lambda op: op.name)
def test_the_outputs_that_python_would_make_are_those_of_the_contract(op, engine):
    """The library, which has the derived extents as functions, takes what this package works out of their text."""
    made = {arg.name for arg in allocatable(op)}
    given = {}
    for arg in op.args:
        if arg.name not in made and (not arg.optional or arg.name in OPTIONAL):
            given[arg.name] = spec(op, arg) if arg.is_tensor else NUMBERS.get(arg.name, 1)
    assert kiln.why_not(op.name, **given) == ""
