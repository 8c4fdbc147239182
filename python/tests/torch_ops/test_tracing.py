"""The functions of the package itself, which torch's compiler does not follow. Needs no GPU."""

import pytest
import torch

import kiln


@pytest.fixture(autouse=True)
def forget():
    torch._dynamo.reset()


def tensors():
    return torch.zeros(3, 512).bfloat16(), torch.zeros(512).bfloat16()


def test_a_question_in_traced_code_is_answered_and_breaks_the_graph():
    x, w = tensors()

    def step(a):
        twice = a * 2
        return twice + 1 if kiln.can_use("rmsnorm", twice, w, 1e-6) else twice - 1

    assert torch.equal(torch.compile(step, backend="eager")(x), x * 2 - 1)
    assert torch._dynamo.explain(step)(x).graph_break_count == 1


def test_a_call_in_traced_code_is_made_as_ever():
    x, w = tensors()
    ways = {
        "function": lambda a: kiln.rmsnorm(a + 1, w, 1e-6),
        "by name": lambda a: kiln.launch("rmsnorm", a + 1, w, 1e-6),
        "engine": lambda a: kiln.default_engine().launch("rmsnorm", a + 1, w, 1e-6),
    }
    for step in ways.values():
        with pytest.raises(kiln.InvalidArgumentError, match='^rmsnorm: argument "x": expected a tensor on a CUDA device'):
            torch.compile(step, backend="eager")(x)


def test_where_no_break_is_allowed_the_compiler_says_which_function_it_is():
    x, w = tensors()
    with pytest.raises(torch._dynamo.exc.Unsupported, match="rmsnorm"):
        torch.compile(lambda a: kiln.rmsnorm(a, w, 1e-6), backend="eager", fullgraph=True)(x)
