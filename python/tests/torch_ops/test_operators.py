"""torch.ops.kiln without a GPU: schemas, fake tensors, tracing; and what PyTorch's compiler makes of the operators, on kernels for the CPU
that are made of the references."""

import dataclasses

import emulation
import pytest
import torch
from calls import Outputs, as_bytes, by_function, by_launch, by_position, differences, for_opcheck, some
from compare import difference
from expected import expected
from torch._subclasses.fake_tensor import FakeTensorMode

import kiln.torch  # noqa: F401 (registers the operators)
from kiln import _registry, _shapes

OPS = [op.name for op in _registry.ops()]
ALLOCATING = [op.name for op in _registry.ops() if _shapes.allocatable(op)]


def operator(name):
    return getattr(torch.ops.kiln, name)


@pytest.fixture(scope="module", autouse=True)
def kernels():
    library = emulation.install()
    yield
    library._destroy()


def test_every_op_is_an_operator_that_says_what_it_writes():
    for op in _registry.ops():
        packet = operator(op.name)
        schema = packet.default._schema
        by_name = {argument.name: argument for argument in schema.arguments}
        assert set(by_name) == {arg.name for arg in op.args}
        assert schema.returns == []
        for arg in op.args:
            alias = by_name[arg.name].alias_info
            assert (alias is not None and alias.is_write) == arg.is_mutated, f"{op.name}: {arg.name}"
            assert by_name[arg.name].has_default_value() == arg.optional
        allocated = [arg.name for arg in _shapes.allocatable(op)]
        assert ("functional" in packet.overloads()) == bool(allocated)
        if allocated:
            assert not {argument.name for argument in packet.functional._schema.arguments} & set(allocated)
            assert len(packet.functional._schema.returns) == len(allocated)


@pytest.mark.parametrize(
    "text",
    [
        "kiln::n128k512_gemm_bf16(Tensor x, Tensor w, Tensor(a!) out) -> ()",
        "kiln::n128k512_gemm_bf16.functional(Tensor x, Tensor w) -> Tensor",
        "kiln::rmsnorm_mxfp8.functional(Tensor x, Tensor w, float eps) -> (Tensor, Tensor, Tensor)",
        "kiln::rope_inplace(Tensor(a!) x, Tensor freqs, Tensor positions) -> ()",
        "kiln::engram_gather(Tensor weight, Tensor scale, Tensor ids, SymInt row_lo, Tensor(a!) out) -> ()",
        "kiln::candidate_block_logits(Tensor logits, Tensor seq_lens, SymInt topk_blocks, SymInt block_size, *, "
        "Tensor? published=None, Tensor(a!) out, Tensor(b!)? keep=None) -> ()",
    ],
)
def test_a_schema_reads_like_the_op(text):
    name = text[len("kiln::") : text.index("(")]
    packet, _, overload = name.partition(".")
    assert str(getattr(operator(packet), overload or "default")._schema) == text


@pytest.mark.parametrize("name", ALLOCATING)
def test_fake_tensors_of_a_gpu_get_the_shapes_and_types_of_the_outputs(name):
    op = _registry.op(name)
    for call in some(name):
        call = dataclasses.replace(call, dtypes={})  # What is allocated has the usual type.
        want = expected(op, call)
        outputs = Outputs(op, call, "cpu")
        given = by_function(op, call, outputs)
        with FakeTensorMode() as mode:
            got = operator(name).functional(**{key: fake(mode, value) for key, value in given.items()})
        for arg, tensor in zip(_shapes.allocatable(op), got if isinstance(got, tuple) else (got,)):
            assert (tensor.shape, tensor.dtype, tensor.device.type) == (want[arg.name].shape, want[arg.name].dtype, "cuda"), str(call)


def fake(mode, value):
    """A tensor of a GPU, of the same shape and strides."""
    if not isinstance(value, torch.Tensor):
        return value
    with mode:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")


@pytest.mark.parametrize("name", OPS)
def test_an_operator_writes_what_the_reference_gives_and_nothing_else(name):
    op = _registry.op(name)
    for call in some(name):
        outputs = Outputs(op, call, "cpu")
        outputs.poison()
        given = by_launch(op, call, outputs)
        assert operator(name)(**given) is None
        assert differences(op, call, given, outputs, expected(op, call)) == ""


@pytest.mark.parametrize("name", OPS)
def test_opcheck_finds_nothing(name):
    op = _registry.op(name)
    others = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
    for call in some(name, count=2):
        call = for_opcheck(op, call)
        outputs = Outputs(op, call, "cpu")
        outputs.poison(0)
        torch.library.opcheck(operator(name).default, (), by_launch(op, call, outputs))
        if _shapes.allocatable(op):
            # The types of 8 bits that it allocates are no bytes.
            eighths = any("e4m3" in arg.dtypes for arg in _shapes.allocatable(op))
            checks = {"test_utils": others} if eighths else {}
            torch.library.opcheck(operator(name).functional, (), by_function(op, call, outputs), **checks)


def compiled_call_differs(op, call, backend):
    """Empty, or what a compiled call writes wrongly."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda args, named: operator(op.name)(*args, **named), fullgraph=True, backend=backend)
    outputs = Outputs(op, call, "cpu")
    outputs.poison()
    given = by_launch(op, call, outputs)
    compiled(*by_position(operator(op.name).default, given))
    return differences(op, call, given, outputs, expected(op, call))


@pytest.mark.parametrize("name", OPS)
def test_a_compiled_call_gives_what_an_eager_one_gives(name):
    # The compiler's code for CPUs has no e8m0, whose place bytes can take.
    op = _registry.op(name)
    first, *others = some(name, count=4)
    assert compiled_call_differs(op, as_bytes(op, first), "inductor") == ""
    for call in (first, *others):
        assert compiled_call_differs(op, call, "aot_eager") == ""


@pytest.mark.parametrize("name", ALLOCATING)
def test_a_compiled_call_that_allocates_gives_what_an_eager_one_gives(name):
    op = _registry.op(name)
    call = as_bytes(op, some(name, count=1)[0])
    call = dataclasses.replace(call, dtypes={})  # What is allocated has the usual type.
    optional = {arg.name for arg in op.outputs if arg.optional}
    for left_out in ({}, optional) if optional else ({},):
        torch._dynamo.reset()
        compiled = torch.compile(lambda given: operator(name).functional(**given), fullgraph=True)
        got, eager = [
            run({key: value for key, value in by_function(op, call, Outputs(op, call, "cpu")).items() if key not in left_out})
            for run in (compiled, lambda given: operator(name).functional(**given))
        ]
        pairs = zip(got if isinstance(got, tuple) else (got,), eager if isinstance(eager, tuple) else (eager,))
        for arg, (mine, other) in zip(_shapes.allocatable(op), pairs):
            assert difference(arg.name, mine, other) == "", str(call)


def test_a_compiled_step_of_several_ops_works_on_any_number_of_rows():
    torch._dynamo.reset()

    def step(x, w, weight, out):
        y = torch.ops.kiln.rmsnorm.functional(x, w, 1e-6)
        torch.ops.kiln.n128k512_gemm_bf16(y + 0, weight, out)
        q, sf = torch.ops.kiln.mxfp8_quantize.functional(out * 2)
        return y, q, sf

    compiled = torch.compile(step, fullgraph=True, dynamic=True)
    for rows in (3, 5, 130):
        x, w, weight = (torch.randn(*shape).bfloat16() for shape in ((rows, 512), (512,), (128, 512)))
        outs = [torch.empty(rows, 128, dtype=torch.bfloat16) for _ in range(2)]
        results = zip(("y", "q", "sf", "out"), (*compiled(x, w, weight, outs[0]), outs[0]), (*step(x, w, weight, outs[1]), outs[1]))
        for output, got, want in results:
            assert difference(output, got, want) == ""


def test_export_traces_both_forms_on_tensors_of_a_gpu():
    class Step(torch.nn.Module):
        def forward(self, x, w, weight, out):
            y = torch.ops.kiln.rmsnorm.functional(x, w, 1e-6)
            torch.ops.kiln.n128k512_gemm_bf16(y, weight, out)
            return y

    with FakeTensorMode() as mode:
        args = tuple(fake(mode, torch.empty(shape, dtype=torch.bfloat16)) for shape in ((8, 512), (512,), (128, 512), (8, 128)))
        program = torch.export.export(Step(), args)
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert called == ["kiln.rmsnorm.functional", "kiln.n128k512_gemm_bf16.default"]


def test_autocast_changes_nothing():
    x, w = torch.randn(4, 64), torch.randn(64)
    plain = torch.ops.kiln.rmsnorm_fp32.functional(x, w, 1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = torch.ops.kiln.rmsnorm_fp32.functional(x, w, 1e-6)
    assert difference("y", cast, plain) == ""


def test_tensors_of_inference_mode_are_taken():
    with torch.inference_mode():
        x, w = torch.randn(4, 64), torch.randn(64)
        y = torch.empty_like(x)
        torch.ops.kiln.rmsnorm_fp32(x, w, 1e-6, y)
        assert difference("y", y, torch.ops.kiln.rmsnorm_fp32.functional(x, w, 1e-6)) == ""


def test_a_gradient_that_somebody_asks_for_is_not_made_up():
    w = torch.nn.Parameter(torch.ones(64))
    y = torch.ops.kiln.rmsnorm_fp32.functional(torch.randn(4, 64), w, 1e-6)
    with pytest.warns(UserWarning, match="autograd kernel was not registered"):
        y.sum().backward()
    assert w.grad is None
