"""docs/kernel_contracts.md, section 6, from Python: every op on a GPU against the references in torch. Eager, through the functions of the
package and through the operators; compiled; replayed from CUDA graphs with other inputs. Outputs and workspaces are poisoned before."""

import dataclasses
import gc

import bounds
import pytest
import torch
from calls import Outputs, by_function, by_launch, by_position, copy_with_gaps, differences, for_opcheck, some
from compare import difference
from expected import expected
from inputs import GROUPS, Draw

import kiln
import kiln.torch
from kiln import _registry, _shapes, _signature

CAPABILITY = torch.cuda.get_device_capability() if torch.cuda.is_available() else (0, 0)
pytestmark = pytest.mark.skipif(CAPABILITY < (9, 0), reason="no GPU of compute capability 9.0 or newer")

OPS = [op.name for op in _registry.ops()]
OPS_AND_GROUPS = [pytest.param(name, group, id=f"{name}-{group.__name__}") for name in OPS for group in GROUPS[name]]


def operator(name):
    return getattr(torch.ops.kiln, name)


def without_pdl(name, given):
    kiln.default_engine().launch(name, options=kiln.LaunchOptions(pdl=False), **given)


def waits(name, given):
    kiln.default_engine().launch(name, options=kiln.LaunchOptions(constants_ready=False), **given)


WAYS = {
    "function": lambda name, given: getattr(kiln, name)(**given),
    "operator": lambda name, given: operator(name)(**given),
    "no PDL": without_pdl,
    "constants not ready": waits,
}


def poison_free_memory(byte):
    """What the allocator hands out next as a workspace."""
    torch.full((64 << 20,), byte, dtype=torch.uint8, device="cuda")


def launched(op, call, way, byte):
    """Empty, or what a call writes wrongly."""
    outputs = Outputs(op, call, "cuda")
    outputs.poison(byte)
    if op.workspace:
        poison_free_memory(byte)
    given = by_launch(op, call, outputs)
    WAYS[way](op.name, given)
    return lambda want: differences(op, call, given, outputs, want, byte)


@pytest.mark.parametrize("name, group", OPS_AND_GROUPS)
def test_an_op_gives_the_bits_of_its_reference(name, group):
    op = _registry.op(name)
    for number, call in enumerate(group(name, Draw("cuda"), full=True)):
        # The first calls in every way, and then in turn; two of them by now, so that neither hides behind what the other wrote.
        ways = list(WAYS) if number < 8 else [list(WAYS)[number % 4], list(WAYS)[(number + 1) % 4]]
        checks = {way: launched(op, call, way, 0xA5 if place % 2 else 0x5A) for place, way in enumerate(ways)}
        want = {output: values.cuda() for output, values in expected(op, call, CAPABILITY).items()}
        for way, check in checks.items():
            assert check(want) == "", way


def tensors_of(call):
    return {name: value for name, value in call.args.items() if isinstance(value, torch.Tensor)}


def same_form(a, b):
    """Whether inputs of one call can stand in the tensors of the other's."""
    ours, theirs = tensors_of(a), tensors_of(b)
    numbers = {name: value for name, value in a.args.items() if name not in ours}
    return (
        numbers == {name: value for name, value in b.args.items() if name not in theirs}
        and {name: (value.shape, value.stride(), value.dtype) for name, value in ours.items()}
        == {name: (value.shape, value.stride(), value.dtype) for name, value in theirs.items()}
        and a.extents == b.extents
        and a.wanted == b.wanted
    )


def every(calls, most):
    """At most so many of them, from all over."""
    calls = list(calls)
    return calls[:: max(1, -(-len(calls) // most))]


@pytest.mark.parametrize("name, group", OPS_AND_GROUPS)
def test_a_graph_replays_an_op_on_inputs_that_change(name, group):
    op = _registry.op(name)
    pairs = zip(group(name, Draw("cuda", 3), full=False), group(name, Draw("cuda", 4), full=False))
    for first, second in every(pairs, 12):
        if not same_form(first, second):
            continue
        outputs = Outputs(op, first, "cuda")
        given = by_launch(op, first, outputs)
        given |= {key: copy_with_gaps(value) for key, value in tensors_of(first).items()}
        operator(name)(**given)  # Loads what is needed.
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            operator(name)(**given)
        for call, byte in ((first, 0xA5), (second, 0x5A), (first, 0x3C)):
            for key, value in tensors_of(call).items():
                given[key].copy_(value)
            outputs.poison(byte)
            graph.replay()
            torch.cuda.synchronize()
            want = {output: values.cuda() for output, values in expected(op, call, CAPABILITY).items()}
            assert differences(op, call, given, outputs, want, byte) == "", "replayed"


def compiled_differs(name, call, run):
    op = _registry.op(name)
    outputs = Outputs(op, call, "cuda")
    outputs.poison()
    given = by_launch(op, call, outputs)
    args, named = by_position(operator(name).default, given)
    run(args, named)
    want = {output: values.cuda() for output, values in expected(op, call, CAPABILITY).items()}
    return differences(op, call, given, outputs, want)


@pytest.mark.parametrize("name", OPS)
def test_a_compiled_call_gives_the_bits_of_an_eager_one(name):
    torch._dynamo.reset()
    run = torch.compile(lambda args, named: operator(name)(*args, **named), fullgraph=True)
    for call in some(name, count=2, device="cuda"):
        assert compiled_differs(name, call, run) == ""


@pytest.mark.parametrize("name", [name for name in OPS if _shapes.allocatable(_registry.op(name))])
def test_a_compiled_call_that_allocates_gives_the_bits_of_an_eager_one(name):
    torch._dynamo.reset()
    op = _registry.op(name)
    run = torch.compile(lambda given: operator(name).functional(**given), fullgraph=True)
    call = some(name, count=1, device="cuda")[0]
    given = by_function(op, call, Outputs(op, call, "cuda"))
    got, eager = run(given), operator(name).functional(**by_function(op, call, Outputs(op, call, "cuda")))
    pairs = zip(got if isinstance(got, tuple) else (got,), eager if isinstance(eager, tuple) else (eager,))
    for arg, (mine, other) in zip(_shapes.allocatable(op), pairs):
        assert difference(arg.name, mine, other) == "", str(call)


@pytest.mark.parametrize("name", OPS)
def test_opcheck_finds_nothing(name):
    op = _registry.op(name)
    call = for_opcheck(op, some(name, count=1, device="cuda")[0])
    outputs = Outputs(op, call, "cuda")
    outputs.poison(0)
    torch.library.opcheck(operator(name).default, (), by_launch(op, call, outputs))


def wanting_a_workspace(name, most=4):
    """Calls of an op that need one on this device, with how much."""
    op, found = _registry.op(name), []
    for group in reversed(GROUPS[name]):
        for call in group(name, Draw("cuda", 11), full=False):
            size = kiln.workspace_bytes(name, **by_launch(op, call, Outputs(op, call, "cuda")))
            if size > 0:
                found.append((call, size))
            if len(found) == most:
                return found
    assert found, f"no call of {name} here needs the workspace that the op says it may need"
    return found


@pytest.mark.parametrize("name", [op.name for op in _registry.ops() if op.workspace])
def test_a_workspace_of_the_callers_own_may_hold_anything(name):
    op = _registry.op(name)
    for call, size in wanting_a_workspace(name):
        outputs = Outputs(op, call, "cuda")
        given = by_launch(op, call, outputs)
        workspace = torch.empty(size, dtype=torch.uint8, device="cuda")
        want = {output: values.cuda() for output, values in expected(op, call, CAPABILITY).items()}
        graph = torch.cuda.CUDAGraph()
        kiln.default_engine().launch(name, workspace=workspace, **given)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            kiln.default_engine().launch(name, workspace=workspace, **given)
        for byte in (0xFF, 0x00, 0xA5):
            workspace.fill_(byte)
            outputs.poison(byte)
            graph.replay()
            torch.cuda.synchronize()
            assert differences(op, call, given, outputs, want, byte) == ""


def takes_and_gives_back(size, run, *args, **given):
    """Whether a second call takes so much of torch's memory while it is made, and nothing for longer."""
    run(*args, **given)
    gc.collect()  # What other tests left is not given back meanwhile.
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run(*args, **given)
    return torch.cuda.memory_allocated() == before and torch.cuda.max_memory_allocated() - before >= size > 0


@pytest.mark.parametrize("name", [op.name for op in _registry.ops() if op.workspace])
def test_a_workspace_comes_from_torchs_allocator_and_goes_back(name):
    op = _registry.op(name)
    for call, size in wanting_a_workspace(name):
        given = by_launch(op, call, Outputs(op, call, "cuda"))
        assert takes_and_gives_back(size, operator(name), **given)
        assert takes_and_gives_back(size, getattr(kiln, name), **given)


TURNED = """
template <int> __global__ void put(const float* x, float* room, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) room[i] = 2 * x[i];
}
template <int> __global__ void turn(const float* room, float* out, long long n) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i < n) out[i] = room[n - 1 - i];
}
"""


@pytest.fixture(scope="session")
def turned():
    """An op of one's own that needs a workspace for any call, whatever the built-in ones come to need: twice x, from its end."""
    n, everywhere = kiln.Param.expression("n"), {"grid": ["ceil_div(n, 256)"], "block": [256]}
    kernels = [
        kiln.Kernel("put", "turned.cu", "put<1>", params=["x", kiln.Param.workspace(), n], **everywhere),
        kiln.Kernel("turn", "turned.cu", "turn<1>", params=[kiln.Param.workspace(), "out", n], **everywhere),
    ]
    args = [kiln.TensorArg("x", "f32", "n"), kiln.TensorArg("out", "f32", "n", access="write")]
    made = kiln.register_op("torch_test_turned", args=args, kernels=kernels, sources={"turned.cu": TURNED}, workspace_bytes="4 * n")
    kiln.torch.register("torch_test_turned")
    return made


TURNED_WAYS = {
    "function": lambda turned, x, out: turned(x, out=out),
    "operator": lambda turned, x, out: torch.ops.kiln.torch_test_turned(x, out),
    "plan": lambda turned, x, out: kiln.plan("torch_test_turned", x).launch(x, out),
    "plan by name": lambda turned, x, out: kiln.plan("torch_test_turned", x)(x, out=out),
    "options": lambda turned, x, out: turned(x, out=out, options=kiln.LaunchOptions(serialize=True)),
    "stream": lambda turned, x, out: turned(x, out=out, stream=torch.cuda.current_stream()),
}


@pytest.mark.parametrize("way", TURNED_WAYS)
def test_the_workspace_of_an_op_of_ones_own_comes_and_goes(turned, way):
    for n in (1000, 1 << 20):
        x, out = Draw("cuda", n).normal(n, dtype=torch.float32), torch.full((n,), float("nan"), device="cuda")
        assert kiln.workspace_bytes("torch_test_turned", x) == 4 * n
        poison_free_memory(0xA5)
        assert takes_and_gives_back(4 * n, TURNED_WAYS[way], turned, x, out)
        assert torch.equal(out, 2 * x.flip(0))


def test_a_workspace_that_is_captured_stays_with_its_graph(turned):
    x, out = Draw("cuda").normal(1 << 20, dtype=torch.float32), torch.empty(1 << 20, device="cuda")
    turned(x, out=out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        turned(x, out=out)
    for seed in (1, 2):
        poison_free_memory(0xA5)  # Not the graph's own.
        x.copy_(Draw("cuda", seed).normal(1 << 20, dtype=torch.float32))
        graph.replay()
        assert torch.equal(out, 2 * x.flip(0))


@pytest.mark.parametrize("name", [name for name in OPS if _shapes.allocatable(_registry.op(name))])
def test_outputs_that_are_left_out_get_the_bits_of_the_reference(name):
    op = _registry.op(name)
    calls = [dataclasses.replace(call, dtypes={}) for call in some(name, count=4, device="cuda")]
    slow = kiln.LaunchOptions(serialize=True)
    for call in (*calls, *reversed(calls)):  # From what is remembered, too.
        given = by_function(op, call, Outputs(op, call, "cuda"))
        plan = kiln.plan(name, **given)
        ways = {
            "function": getattr(kiln, name),
            "plan": plan,
            "by name": lambda **given: kiln.launch(name, **given),
            "options": lambda **given: kiln.launch(name, options=slow, **given),
            "operator": lambda **given: operator(name).functional(**given),
        }
        want = {output: values.cuda() for output, values in expected(op, call, CAPABILITY).items()}
        for way, run in ways.items():
            poison_free_memory(0xA5)
            got = run(**by_function(op, call, Outputs(op, call, "cuda")))
            returned = _shapes.allocatable(op) if way == "operator" else _signature.returned(op)
            for arg, tensor in zip(returned, got if isinstance(got, tuple) else (got,)):
                assert difference(arg.name, tensor, want[arg.name]) == "", f"{way}: {call}"


@pytest.mark.parametrize("way", ["current", "current, with options", "named"])
def test_outputs_and_workspaces_are_made_for_the_stream_of_the_call(way):
    rows = Draw("cuda").normal(2, 1 << 20, dtype=torch.float32)
    assert kiln.workspace_bytes("row_argmax", rows) > 0
    want = kiln.row_argmax(rows)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        late = rows * 1  # Not there before the sleep is over: another stream would read too early.
        if way != "named":
            got = kiln.row_argmax(late, options=None if way == "current" else kiln.LaunchOptions(serialize=True))
    if way == "named":
        got = kiln.row_argmax(late, stream=stream)
        torch.full((1 << 20,), 0xA5, dtype=torch.uint8, device="cuda")  # Would write into a workspace of the current stream's.
    stream.synchronize()
    assert difference("out", got, want) == ""


def test_copied_elements_keep_the_bits_of_a_nan():
    heads = Draw("cuda").bits(torch.bfloat16, 40, 2, 512)
    call = {"q": heads, "freqs": torch.ones(4, 32, dtype=torch.complex64, device="cuda")}
    out = kiln.q_rope_store(**call, positions=torch.zeros(40, dtype=torch.int64, device="cuda"))
    assert torch.equal(out[..., :448].view(torch.int16), heads[..., :448].view(torch.int16))
    logits = Draw("cuda").bits(torch.float32, 7, 1000)
    lens = torch.full((7,), 1000, device="cuda")
    out, _ = kiln.candidate_block_scores(logits, lens, 8, out=None, scores=torch.empty(7, 125, device="cuda"))
    assert torch.equal(out.view(torch.int32), logits.view(torch.int32))


@pytest.mark.parametrize("name", ["n128k512_gemm_bf16", "n32k5120_gemm_bf16"])
def test_a_small_gemm_stays_within_its_bound(name):
    for m in (1, 33, 4097):
        k, n = (512, 128) if name.startswith("n128") else (5120, 32)
        x, w = Draw("cuda", m).normal(m, k), Draw("cuda", m + 1).normal(n, k)
        assert bounds.gemm_outside(getattr(kiln, name)(x, w), x, w) == 0


def test_the_gate_stays_within_its_bound():
    for group in GROUPS["fused_engram_gate"][:1]:
        for call in group("fused_engram_gate", Draw("cuda"), full=True):
            if bounds.gate_is_bound(call.args):
                assert bounds.gate_outside(kiln.fused_engram_gate(**call.args), call.args) == 0, str(call)


FUSED = {
    "rmsnorm_mxfp8": lambda args: (y := kiln.rmsnorm(**args), *kiln.mxfp8_quantize(y)),
    "hc_combine_norm_mxfp8": lambda args: (y := kiln.hc_combine_norm(**args), *kiln.mxfp8_quantize(y)),
}


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_op_gives_the_bits_of_its_unfused_pair(name):
    for group in GROUPS[name]:
        for call in group(name, Draw("cuda", 9), full=False):
            for output, fused, unfused in zip(("y", "q", "sf"), getattr(kiln, name)(**call.args), FUSED[name](call.args)):
                assert difference(output, fused, unfused) == "", str(call)


def test_stored_and_in_place_rotation_give_the_same_bits():
    for call in some("q_rope_store", count=8, device="cuda"):
        x = call.args["q"].clone()
        kiln.rope_inplace(x, call.args["freqs"], call.args["positions"])
        assert difference("x", x, kiln.q_rope_store(**call.args)) == "", str(call)


def step(x, w, weight, out):
    """Three ops, each on what the one before it gave."""
    y = torch.ops.kiln.rmsnorm.functional(x, w, 1e-6)
    torch.ops.kiln.n128k512_gemm_bf16(y, weight, out)
    return torch.ops.kiln.mxfp8_quantize.functional(out)


def step_inputs(rows, seed):
    draw = Draw("cuda", seed)
    return draw.normal(rows, 512), draw.normal(512), draw.normal(128, 512)


@pytest.mark.parametrize("options", [{}, {"dynamic": True}, {"mode": "reduce-overhead"}], ids=str)
def test_a_compiled_step_gives_the_bits_of_an_eager_one(options):
    torch._dynamo.reset()
    compiled = torch.compile(step, fullgraph=True, **options)
    for rows, seed in ((3, 1), (3, 2), (3, 3), (8, 4), (8, 5)):
        inputs = step_inputs(rows, seed)
        outs = [torch.zeros(rows, 128, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
        results = (*compiled(*inputs, outs[0]), outs[0])
        for output, got, want in zip(("q", "sf", "out"), results, (*step(*inputs, outs[1]), outs[1])):
            assert difference(output, got.clone(), want) == ""


def test_a_step_works_on_whatever_stream_is_current():
    inputs = step_inputs(8, 1)
    outs = [torch.zeros(8, 128, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    want = step(*inputs, outs[0])
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(20_000_000)
        late = inputs[0] * 1  # Not there before the sleep is over: another stream would read too early.
        got = step(late, *inputs[1:], outs[1])
        torch.cuda.current_stream().synchronize()
    for output, mine, other in zip(("q", "sf"), got, want):
        assert difference(output, mine, other) == ""


def test_inference_mode_and_autocast_change_nothing():
    x, w, _ = step_inputs(8, 1)
    want = kiln.rmsnorm_fp32(x.float(), w.float(), 1e-6)
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
        got = torch.ops.kiln.rmsnorm_fp32.functional(x.float(), w.float(), 1e-6)
    assert difference("y", got, want) == ""
    assert difference("y", torch.ops.kiln.rmsnorm_fp32.functional(x.float(), torch.nn.Parameter(w.float()), 1e-6), want) == ""
