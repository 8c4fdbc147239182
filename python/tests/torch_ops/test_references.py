"""The references in torch against the project's C++ ones, on the CPU."""

import bounds
import oracle
import pytest
import torch
from compare import difference
from expected import expected
from inputs import GROUPS, Draw
from references import reference_of

from kiln import _registry

# What compares a reference in torch with a bound does so where that is quick.
NEAR = "cuda" if torch.cuda.is_available() else "cpu"
needs_oracle = pytest.mark.skipif(not oracle.path(), reason="KILN_REFERENCE_CASES names no library of the C++ references")


def test_every_op_has_calls_and_a_reference():
    names = {op.name for op in _registry.ops()}
    assert names == set(GROUPS)
    assert not [name for name in names if reference_of(name) is None]


@needs_oracle
@pytest.mark.parametrize("name", sorted(GROUPS))
def test_a_reference_gives_the_bits_of_the_cpp_one(name):
    op = _registry.op(name)
    calls = 0
    for group in GROUPS[name]:
        for call in group(name, Draw(seed=7), full=False):
            for capability in ((9, 0), (10, 0)) if "gemm" in name else ((9, 0),):
                want = oracle.expected(op, call, capability)
                got = expected(op, call, capability)
                for output in want:
                    assert difference(output, got[output], want[output]) == "", str(call)
            calls += 1
    assert calls > 0


@pytest.mark.parametrize("name", ["n128k512_gemm_bf16", "n32k5120_gemm_bf16"])
def test_the_order_of_a_gemm_stays_within_its_bound_and_another_result_does_not(name):
    op = _registry.op(name)
    for call in list(GROUPS[name][0](name, Draw(NEAR, 5), full=False))[:20]:
        x, w = call.args["x"], call.args["w"]
        out = expected(op, call)["out"]
        assert bounds.gemm_outside(out, x, w) == 0, str(call)
        assert bounds.gemm_outside(out * 1.03, x, w) > out.numel() / 2, str(call)


def test_the_steps_of_the_gate_stay_within_its_bound_and_another_result_does_not():
    op = _registry.op("fused_engram_gate")
    for call in GROUPS[op.name][0](op.name, Draw(NEAR, 5), full=False):
        if not bounds.gate_is_bound(call.args):
            continue
        out = expected(op, call)["out"]
        assert bounds.gate_outside(out, call.args) == 0, str(call)
        assert bounds.gate_outside(out * 1.03, call.args) > out.numel() / 2, str(call)
