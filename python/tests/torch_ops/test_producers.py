"""Tensors of other libraries on a GPU, beside torch's: the same memory goes in, and the same bits come out."""

import os

import pytest
import torch
from calls import some
from compare import difference
from inputs import Draw

import kiln
import kiln.torch  # noqa: F401 (registers the operators)

CAPABILITY = torch.cuda.get_device_capability() if torch.cuda.is_available() else (0, 0)
pytestmark = pytest.mark.skipif(CAPABILITY < (9, 0), reason="no GPU of compute capability 9.0 or newer")


@pytest.fixture
def rows():
    return Draw("cuda").normal(5, 5003, dtype=torch.float32)


def test_cupys_arrays_go_in_and_come_out_on_its_current_stream(rows):
    cupy = pytest.importorskip("cupy")
    want = kiln.row_argmax(rows)
    torch.cuda.synchronize()
    array = cupy.from_dlpack(rows)
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            made = kiln.row_argmax(array)
            given = cupy.zeros(5, dtype=cupy.int64)
            assert kiln.row_argmax(array[:, :4000], out=given) is given  # Rows that lie apart.
            stream.synchronize()
        assert isinstance(made, cupy.ndarray)
        assert difference("out", torch.from_dlpack(made), want) == ""
        assert difference("out", torch.from_dlpack(given), kiln.row_argmax(rows[:, :4000])) == ""


def test_an_output_that_cupy_makes_stands_beside_one_that_was_passed(rows):
    cupy = pytest.importorskip("cupy")
    scores = cupy.from_dlpack(rows)
    lens = cupy.asarray([5003, 0, 17, 4000, -1], dtype=cupy.int32)
    out, blocks = kiln.candidate_block_scores(scores, lens, 8, scores=cupy.zeros((5, 626), dtype=cupy.float32))
    cupy.cuda.Stream.null.synchronize()
    want = kiln.candidate_block_scores(rows, torch.from_dlpack(lens), 8, scores=torch.zeros(5, 626, device="cuda"))
    assert difference("out", torch.from_dlpack(out), want[0]) == ""
    assert difference("scores", torch.from_dlpack(blocks), want[1]) == ""


def test_jaxs_arrays_are_read_and_those_passed_to_be_written_are():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # The memory is torch's too.
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    x = jax.random.normal(jax.random.key(1), (8, 512)).astype(jax.numpy.bfloat16)
    w = jax.random.normal(jax.random.key(2), (128, 512)).astype(jax.numpy.bfloat16)
    out = jax.numpy.zeros((8, 128), dtype=jax.numpy.bfloat16)
    jax.block_until_ready((x, w, out))
    kiln.n128k512_gemm_bf16(x, w, out=out)
    torch.cuda.synchronize()
    want = kiln.n128k512_gemm_bf16(torch.from_dlpack(x), torch.from_dlpack(w))
    assert difference("out", torch.from_dlpack(out), want) == ""


def test_numbas_arrays_go_through_their_interface(rows):
    cuda = pytest.importorskip("numba.cuda")
    out = torch.zeros(5, dtype=torch.int64, device="cuda")
    workspace = torch.empty(max(kiln.workspace_bytes("row_argmax", rows), 1), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    kiln.row_argmax(cuda.as_cuda_array(rows), out=cuda.as_cuda_array(out), workspace=cuda.as_cuda_array(workspace))
    torch.cuda.synchronize()
    assert difference("out", out, kiln.row_argmax(rows)) == ""


def test_a_tensor_of_another_library_in_one_call_is_taken_too(rows):
    cupy = pytest.importorskip("cupy")
    out = cupy.zeros(5, dtype=cupy.int64)
    cupy.cuda.Stream.null.synchronize()
    kiln.row_argmax(rows, out=out)
    torch.cuda.synchronize()
    assert difference("out", torch.from_dlpack(out), kiln.row_argmax(rows)) == ""


def test_tables_in_pinned_memory_are_read_from_there():
    for call in some("engram_gather", count=4, device="cuda"):
        want = kiln.engram_gather(**call.args)
        pinned = {name: call.args[name].cpu().pin_memory() for name in ("weight", "scale")}
        assert difference("out", kiln.engram_gather(**{**call.args, **pinned}), want) == ""
        assert difference("out", torch.ops.kiln.engram_gather.functional(**{**call.args, **pinned}), want) == ""
