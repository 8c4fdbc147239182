"""What an operator says to tensors that it cannot work on, an op of one's own among them. Needs no GPU."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import kiln
import kiln.torch


def test_a_tensor_of_the_host_is_refused_by_its_arguments_name():
    x, w = torch.zeros(2, 64).bfloat16(), torch.zeros(64).bfloat16()
    with pytest.raises(kiln.InvalidArgumentError, match='rmsnorm: argument "x": expected a tensor on a CUDA device'):
        torch.ops.kiln.rmsnorm(x, w, 1e-6, torch.empty_like(x))
    with pytest.raises(kiln.InvalidArgumentError, match='rmsnorm: argument "x": expected a tensor on a CUDA device'):
        torch.ops.kiln.rmsnorm.functional(x, w, 1e-6)
    heads, freqs = torch.zeros(2, 3, 512).bfloat16(), torch.zeros(8, 32, dtype=torch.complex64)
    with pytest.raises(kiln.InvalidArgumentError, match='rope_inplace: argument "x"'):
        torch.ops.kiln.rope_inplace(heads, freqs, torch.zeros(2, dtype=torch.int64))


SCALE = "template <int> __global__ void scale(float a, const float* x, float* y, long long n) {}"
SCALE_ARGS = [kiln.ScalarArg("a", "f32"), kiln.TensorArg("x", "f32", "n"), kiln.TensorArg("y", "f32", "n", access="write")]


def register_scale(engine, name, args=SCALE_ARGS):
    params = [*(arg.name for arg in args), kiln.Param.expression("n")]
    kernel = kiln.Kernel("scale", "scale.cu", "scale<1>", params=params, grid=[1], block=[32])
    engine.register_op(name, args=args, kernels=[kernel], sources={"scale.cu": SCALE})


def test_an_op_of_ones_own_becomes_an_operator_once():
    register_scale(kiln.default_engine(), "torch_test_scale")
    kiln.torch.register("torch_test_scale")
    kiln.torch.register("torch_test_scale", kiln.default_engine())
    operator = torch.ops.kiln.torch_test_scale
    assert str(operator.functional._schema) == "kiln::torch_test_scale.functional(float a, Tensor x) -> Tensor"
    with pytest.raises(kiln.InvalidArgumentError, match='torch_test_scale: argument "x": expected a tensor on a CUDA device'):
        operator(2.0, torch.zeros(4), torch.zeros(4))


def noting(engine, name, seen, what):
    """Has the engine note launches of an op of its own in place of launching."""
    register_scale(engine, name)
    vars(engine.launchers)[name] = lambda *_: seen.append(what)


def test_an_operator_launches_the_kernel_of_the_engine_that_it_is_of():
    name, seen, first, second = "torch_test_two", [], kiln.Engine(), kiln.Engine()
    noting(first, name, seen, "first")
    noting(second, name, seen, "second")
    call = lambda: torch.ops.kiln.torch_test_two(2.0, torch.zeros(4), torch.zeros(4))  # noqa: E731
    kiln.torch.register(name, first)
    call()
    kept = kiln.default_engine()
    try:
        kiln.set_default_engine(second)
        call()
        with pytest.raises(kiln.InvalidArgumentError, match=f"{name} is the op of another engine, which is open.*give the op another name"):
            kiln.torch.register(name)
        call()
    finally:
        kiln.set_default_engine(kept)
    assert seen == ["first"] * 3
    first.close()
    with pytest.raises(kiln.InvalidArgumentError, match="the engine was closed"):
        call()
    kiln.torch.register(name, second)
    call()
    assert seen == ["first"] * 3 + ["second"]
    del second
    with pytest.raises(kiln.InvalidArgumentError, match=f"{name}: the engine .* was dropped; register it anew"):
        call()


def test_an_operator_keeps_the_arguments_that_it_was_first_registered_with():
    name = "torch_test_arguments"
    with kiln.Engine() as first:
        register_scale(first, name)
        kiln.torch.register(name, first)
    with kiln.Engine() as second:
        register_scale(second, name, SCALE_ARGS[1:])
        with pytest.raises(kiln.InvalidArgumentError, match=f"{name} has other arguments already"):
            kiln.torch.register(name, second)


def test_a_built_in_operator_is_of_the_default_engine():
    seen, kept = [], kiln.default_engine()
    x, w = torch.zeros(2, 64).bfloat16(), torch.zeros(64).bfloat16()
    with kiln.Engine() as mine:
        kiln.torch.register("rmsnorm", mine)
        vars(mine.launchers)["rmsnorm"] = lambda *_: seen.append("mine")
        try:
            kiln.set_default_engine(mine)
            torch.ops.kiln.rmsnorm(x, w, 1e-6, torch.empty_like(x))
        finally:
            kiln.set_default_engine(kept)
    with pytest.raises(kiln.InvalidArgumentError, match='rmsnorm: argument "x": expected a tensor on a CUDA device'):
        torch.ops.kiln.rmsnorm(x, w, 1e-6, torch.empty_like(x))
    assert seen == ["mine"]


def fake(*shape, dtype=torch.bfloat16):
    return torch.empty(shape, dtype=dtype, device="cuda")


def test_a_trace_says_what_a_launch_would_say_of_its_arguments():
    with FakeTensorMode():
        x, w, out = fake(8, 512), fake(128, 512), fake(8, 128)
        wrong = {
            r'^rmsnorm: argument "x" must have the shape .*, found 1 axes': lambda: torch.ops.kiln.rmsnorm.functional(
                fake(8), fake(8), 1e-6
            ),
            r'^n128k512_gemm_bf16: argument "x" must have the shape \[m, 512\], found \[8, 5\]': lambda: operator(fake(8, 5), w, out),
            r'^n128k512_gemm_bf16: argument "out" must .* found \[9, 128\], where m is 8': lambda: operator(x, w, fake(9, 128)),
            r'^n128k512_gemm_bf16: argument "w" must be of bf16, found torch.float32': lambda: operator.functional(x, w.float()),
        }
        operator = torch.ops.kiln.n128k512_gemm_bf16
        assert operator(x, w, out) is None
        for said, call in wrong.items():
            with pytest.raises(kiln.InvalidArgumentError, match=said):
                call()


def test_what_an_operator_is_asked_about_may_be_a_tracers():
    with FakeTensorMode():
        x, w = fake(8, 512), fake(128, 512)
        assert kiln.can_use("n128k512_gemm_bf16", x, w)
        assert 'argument "x"' in kiln.why_not("n128k512_gemm_bf16", x.float(), w)
        assert 'argument "x"' in kiln.why_not("n128k512_gemm_bf16", x.cpu(), w)
        with pytest.raises(kiln.ArgumentTypeError, match="no tensor with memory of its own"):
            kiln.n128k512_gemm_bf16(x, w)


@pytest.mark.parametrize("name", ["__init__", "__odd"])
def test_a_name_of_pythons_own_is_no_operators(name):
    with kiln.Engine() as engine:
        register_scale(engine, name)
        with pytest.raises(kiln.InvalidArgumentError, match=f"^{name}: .*two underscores"):
            kiln.torch.register(name, engine)


@pytest.mark.parametrize(("name", "argument"), [("a-b", "x"), ("a.b", "x"), ("torch_test_odd", "class")])
def test_a_name_that_pytorch_does_not_take_is_named(name, argument):
    source = "template <int> __global__ void odd(float* x, long long n) {}"
    kernel = kiln.Kernel("odd", "odd.cu", "odd<1>", params=[argument, kiln.Param.expression("n")], grid=[1], block=[32])
    args = [kiln.TensorArg(argument, "f32", "n", access="read_write")]
    kiln.register_op(name, args=args, kernels=[kernel], sources={"odd.cu": source})
    for _ in range(2):
        with pytest.raises(kiln.InvalidArgumentError, match=f"^{name}: PyTorch takes no .*, which is no identifier"):
            kiln.torch.register(name)


def test_what_torch_conjugates_or_negates_only_when_it_is_read_is_refused():
    turned = torch.zeros(4, 8, dtype=torch.complex64).conj()
    kinds = {"resolve_neg": lambda: kiln.row_argmax(torch.imag(turned), out=torch.zeros(4, dtype=torch.int64))}
    freqs, positions = torch.zeros(8, 32, dtype=torch.complex64).conj(), torch.zeros(2, dtype=torch.int64)
    heads = torch.zeros(2, 3, 512, dtype=torch.bfloat16, device="cpu")
    kinds["resolve_conj"] = lambda: kiln.rope_inplace(heads, freqs, positions)
    for said, call in kinds.items():
        for _ in range(2):  # The first call of a type goes the long way.
            with pytest.raises(kiln.InvalidArgumentError, match=said):
                call()


def test_a_tensor_without_memory_of_its_own_is_named():
    x, w, out = torch.zeros(3, 512).bfloat16(), torch.zeros(128, 512).bfloat16(), torch.zeros(3, 128).bfloat16()
    for _ in range(2):
        with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "x": .*meta'):
            kiln.n128k512_gemm_bf16(x.to("meta"), w, out=out)
        with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "x": .*sparse'):
            kiln.n128k512_gemm_bf16(x.to_sparse(), w, out=out)
        with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "x": .*functorch'):
            torch.vmap(lambda rows: kiln.n128k512_gemm_bf16(rows, w))(x[None])
