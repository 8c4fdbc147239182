"""Outputs that a call of torch's tensors leaves out. Needs no GPU: where the launchers stand are the references, on tensors of the CPU."""

import dataclasses
import threading

import emulation
import pytest
import torch
from calls import Outputs, by_function, some
from compare import difference
from expected import expected
from torch._subclasses.fake_tensor import FakeTensorMode

import kiln
from kiln import _engine, _native, _outputs, _producers, _registry, _shapes, _short, _signature
from kiln._launch_options import DEFAULTS

ALLOCATING = [op.name for op in _registry.ops() if _shapes.allocatable(op)]


@pytest.fixture(autouse=True)
def launched():
    """The values of each launch, by the op's name, in the order of the launches."""
    seen = []

    def noting(op):
        launch = emulation.launcher(op)

        def note(*values):
            seen.append((op.name, values))
            launch(*values)

        return note

    for cls in (torch.Tensor, torch.nn.Parameter):
        _producers.admit(cls, torch)
    places = [vars(_engine.fast), vars(kiln.default_engine().launchers)]
    for place in places:
        place.update({op.name: noting(op) for op in _registry.ops()})
    yield seen
    for place in places:
        place.clear()


def ways(op):
    return {
        "function": getattr(kiln, op.name),
        "by name": lambda **given: kiln.launch(op.name, **given),
        "engine": lambda **given: kiln.default_engine().launch(op.name, **given),
    }


def results(op, got):
    return dict(zip((arg.name for arg in _signature.returned(op)), got if isinstance(got, tuple) else (got,)))


@pytest.mark.parametrize("name", ALLOCATING)
def test_what_is_left_out_is_made_and_written(name, launched):
    op = _registry.op(name)
    calls = [dataclasses.replace(call, dtypes={}) for call in some(name, count=4)]
    for call in (*calls, *reversed(calls)):  # From what is remembered, too.
        want = expected(op, call)
        for call_op in ways(op).values():
            given = by_function(op, call, Outputs(op, call, "cpu"))
            for output, tensor in results(op, call_op(**given)).items():
                assert difference(output, tensor, want[output]) == "", str(call)
                assert tensor.stride() == torch.empty(tensor.shape).stride()
    assert len(launched) == 6 * len(calls)


def rows(m, dtype=torch.bfloat16):
    return torch.randn(m, 64).to(dtype), torch.randn(64).to(dtype)


def test_what_is_given_is_kept_and_only_the_rest_is_made():
    x, w = rows(5)
    q = torch.empty(5, 64, dtype=torch.uint8)
    y, same, sf = kiln.rmsnorm_mxfp8(x, w, 1e-6, q=q)
    assert same is q and y.dtype == torch.bfloat16
    want = kiln.rmsnorm_mxfp8(x, w, 1e-6)
    for output, got, other in zip(("y", "q", "sf"), (y, q.view(torch.float8_e4m3fn), sf), want):
        assert difference(output, got, other) == ""


def test_no_two_calls_get_the_same_memory():
    x, w = rows(4)
    first = kiln.rmsnorm(x, w, 1e-6)
    kept = first.clone()
    assert kiln.rmsnorm(-x, w, 1e-6).data_ptr() != first.data_ptr()
    assert torch.equal(first, kept)


def test_a_type_that_follows_an_input_is_looked_at_in_every_call():
    # An op whose output may be of two types: the shapes are the same in all calls.
    op = _registry.op("rmsnorm_fp32")
    dtypes = ("f32", "bf16")
    either = dataclasses.replace(
        op, args=tuple(dataclasses.replace(arg, dtypes=dtypes) if arg.name in ("x", "y") else arg for arg in op.args)
    )
    make = _outputs.maker(either)
    for dtype in (torch.float32, torch.bfloat16, torch.float32):
        x, _ = rows(3, dtype)
        (y,) = make((None,), x)
        assert y.dtype == dtype
    for device in ("meta", "cpu", "meta"):  # And so is the device.
        x, _ = rows(3)
        (y,) = make((None,), x.to(device))
        assert y.device.type == device


def test_no_gradient_and_no_mode_comes_along():
    x, w = rows(4, torch.float32)
    want = kiln.rmsnorm_fp32(x, w, 1e-6)
    got = kiln.rmsnorm_fp32(x, torch.nn.Parameter(w), 1e-6)
    assert not got.requires_grad and type(got) is torch.Tensor
    with torch.inference_mode():
        inference = kiln.rmsnorm_fp32(x, w, 1e-6)
    with torch.device("meta"):
        on_device = kiln.rmsnorm_fp32(x, w, 1e-6)
    for other in (got, inference, on_device):
        assert difference("y", other, want) == ""


def test_a_tensor_without_memory_that_a_mode_makes_is_not_launched(launched):
    x, w = rows(4)
    with FakeTensorMode(), pytest.raises(kiln.InvalidArgumentError, match='rmsnorm: argument "y": a FakeTensor is no tensor with memory'):
        kiln.rmsnorm(x, w, 1e-6)
    assert launched == []


def test_a_wrong_rank_is_named_by_every_way(launched):
    x, w = rows(4)
    for _ in range(2):
        for call in ways(_registry.op("rmsnorm")).values():
            with pytest.raises(kiln.InvalidArgumentError, match='^rmsnorm: argument "x" must have the shape \\[m, k\\], found 0 axes'):
                call(x=w[0], w=w, eps=1e-6)
    assert launched == []


def test_what_is_no_tensor_is_named(launched):
    _, w = rows(4)
    for wrong in (3, 1.5, [1.0], "x"):
        with pytest.raises(kiln.ArgumentTypeError, match='rmsnorm: argument "x": .* is no tensor'):
            kiln.rmsnorm(wrong, w, 1e-6)
    assert launched == []


def test_views_that_are_negated_when_they_are_read_are_refused_with_outputs_left_out_too(launched):
    x = torch.imag(torch.zeros(4, 64, dtype=torch.complex64).conj())
    for call in ways(_registry.op("row_argmax")).values():
        with pytest.raises(kiln.InvalidArgumentError, match="resolve_neg"):
            call(x=x)
    assert launched == []


def test_a_plan_makes_what_is_left_out(launched):
    op = _registry.op("rmsnorm")
    x, w = rows(4)
    values = _signature.bind(op, (x, w, 1e-6), {})
    assert _short.launch(op, values, lambda *values: launched.append(values))
    ((*inputs, y),) = launched
    assert inputs == [x, w, 1e-6] and y is values[-1] and y.shape == x.shape
    # What only the long way can do is left to it.
    assert not _short.launch(op, [kiln.TensorSpec((4, 64), "bf16"), w, 1e-6, None], lambda *values: launched.append(values))
    assert len(launched) == 1


BYTES = 520


@pytest.fixture
def binding(monkeypatch):
    """Stream, workspace and details of each launch that says more than its arguments."""
    seen = []
    real = _native.function

    def op_launch(_, name, stream, workspace, *rest):
        if isinstance(workspace, torch.Tensor) and workspace.is_meta:
            raise RuntimeError("what torch says of it")
        seen.append((stream, workspace, rest[: len(DEFAULTS)]))
        emulation.launcher(_registry.op(name))(*rest[len(DEFAULTS) :])

    def op_workspace_bytes(_, name, *values):
        assert all(value is not None for value in values)
        return BYTES

    mine = {"op_launch": op_launch, "op_workspace_bytes": op_workspace_bytes}
    monkeypatch.setattr(_native, "function", lambda name: mine.get(name) or real(name))
    return seen


def is_made(workspace, stream):
    """By torch: of the binding, at the launch, where torch is at that stream, else before it."""
    return workspace is True if not stream else (workspace.dtype, workspace.shape) == (torch.uint8, (BYTES,))


@pytest.mark.parametrize("stream", [0, 7])  # torch's current one, on the CPU, and another.
def test_a_call_that_names_its_stream_gets_outputs_and_a_workspace(binding, launched, stream):
    x = torch.randn(3, 1000)
    out = torch.empty(3, dtype=torch.int64)
    want = x.argmax(1)
    for given in ({}, {"out": out}):
        assert torch.equal(kiln.row_argmax(x, stream=stream, **given), want)
        (handle, workspace, details) = binding.pop()
        assert (handle, details) == (stream, DEFAULTS)
        assert is_made(workspace, stream)
    assert torch.equal(out, want)
    assert launched == [] == binding


@pytest.mark.parametrize("stream", [None, 0, 7])
def test_options_and_a_workspace_reach_the_launch(binding, stream):
    x, workspace = torch.randn(3, 1000), torch.empty(1000, dtype=torch.uint8)
    for options in (kiln.LaunchOptions(pdl=False), kiln.LaunchOptions(serialize=True, priority=-1), None):
        assert torch.equal(kiln.row_argmax(x, options=options, workspace=workspace, stream=stream), x.argmax(1))
        (handle, room, details) = binding.pop()
        assert room is workspace and handle == (stream or 0)
        assert details == (options or kiln.LaunchOptions()).native
        assert torch.equal(kiln.row_argmax(x, options=kiln.LaunchOptions(pdl=False), stream=stream), x.argmax(1))
        assert is_made(binding.pop()[1], stream)


def test_what_is_said_of_a_launch_is_checked(binding):
    x = torch.randn(3, 1000)
    turned = torch.imag(torch.zeros(1000, dtype=torch.complex64).conj())
    for wrong, said in (
        ({"workspace": 3}, "workspace: a builtins.int is no tensor"),
        ({"workspace": True}, "workspace: a builtins.bool is no tensor"),
        ({"workspace": kiln.TensorSpec((BYTES,), "u8")}, "workspace: a TensorSpec has no memory"),
        ({"workspace": turned}, "workspace: .*resolve_neg"),
        ({"workspace": torch.empty(BYTES, device="meta")}, "workspace: must be a dense tensor"),
        ({"options": "quick"}, "options must be a kiln.LaunchOptions"),
    ):
        with pytest.raises(kiln.InvalidArgumentError, match=f"^row_argmax: {said}"):
            kiln.row_argmax(x, **wrong)
    for stream in ("main", -1, True, 1.5):
        with pytest.raises(kiln.InvalidArgumentError, match="^stream: "):
            kiln.row_argmax(x, stream=stream)
    assert binding == []


def test_many_threads_leave_outputs_out_at_once():
    failures = []

    def work(seed):
        try:
            for m in range(1, 30):
                x, w = rows(m + seed % 3)
                assert kiln.rmsnorm(x, w, 1e-6).shape == x.shape
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_engine_that_is_replaced_launches_no_more(launched):
    x, w = rows(4)
    kiln.rmsnorm(x, w, 1e-6)
    kept = kiln.default_engine()
    try:
        kiln.set_default_engine(kiln.Engine())
        with pytest.raises(kiln.InvalidArgumentError, match='rmsnorm: argument "x": expected a tensor on a CUDA device'):
            kiln.rmsnorm(x, w, 1e-6)  # The new one's own launcher.
    finally:
        kiln.set_default_engine(kept)
    assert len(launched) == 1
