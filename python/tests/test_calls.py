"""Calls with any producer's tensors, on the fake driver."""

from __future__ import annotations

import contextlib
import threading
import types

import pytest
from machine import Array, CudaArray, versioned

import kiln
from kiln import TensorSpec


def gemm(m: int = 3) -> tuple[Array, Array, Array]:
    return Array((m, 512), "bf16"), Array((128, 512), "bf16"), Array((m, 128), "bf16")


def test_a_call_launches_on_the_legacy_stream_and_returns_its_output(machine, engine):
    x, w, out = gemm()
    assert kiln.n128k512_gemm_bf16(x, w, out=out) is out
    (launch,) = machine.launches()
    assert "n128k512_gemm_bf16" in launch.symbol
    assert launch.stream == 0
    assert x.asked_for == w.asked_for == out.asked_for == [1]  # DLPack's number for it


def test_a_stream_may_be_given_by_handle_or_as_an_object(machine, engine):
    handle = machine.make_stream()

    class TorchStream:
        cuda_stream = handle

    class CuPyStream:
        ptr = handle

    class Protocol:
        def __cuda_stream__(self):
            return 0, handle

    for stream in (handle, TorchStream(), CuPyStream(), Protocol()):
        x, w, out = gemm()
        kiln.n128k512_gemm_bf16(x, w, out=out, stream=stream)
        assert machine.launches()[-1].stream == handle
        assert x.asked_for == [handle]
    with pytest.raises(TypeError, match="stream"):
        kiln.n128k512_gemm_bf16(*gemm()[:2], out=gemm()[2], stream="main")
    for wrong in (-5, 1 << 70):
        TorchStream.cuda_stream = wrong
        with pytest.raises(kiln.InvalidArgumentError, match=f"stream: {wrong} is no handle"):
            kiln.n128k512_gemm_bf16(*gemm()[:2], out=gemm()[2], stream=TorchStream())


def test_an_array_of_the_cuda_array_interface_is_taken(machine, engine):
    logits = Array((4, 1000), "f32")
    out = Array((4,), "i64")
    workspace = Array((1 << 16,), "u8")
    kiln.row_argmax(CudaArray(logits, "<f4", 4), out=CudaArray(out, "<i8", 8), workspace=workspace)
    assert machine.launches()


def test_an_array_that_is_made_on_another_stream_is_not_raced(machine, engine):
    logits, out = Array((4, 1000), "f32"), Array((4,), "i64")
    handle = machine.make_stream()
    with pytest.raises(kiln.InvalidArgumentError, match='"x".*stream'):
        kiln.row_argmax(CudaArray(logits, "<f4", 4, stream=handle), out=out)
    with pytest.raises(kiln.InvalidArgumentError, match='"x".*stream'):
        kiln.row_argmax(CudaArray(logits, "<f4", 4, stream=1), out=out, stream=handle)
    kiln.row_argmax(CudaArray(logits, "<f4", 4, stream=handle), out=out, stream=handle)
    assert machine.launches()[-1].stream == handle
    kiln.row_argmax(CudaArray(logits, "<f4", 4, stream=1), out=out)
    assert machine.launches()[-1].stream == 0


def test_strides_and_offsets_reach_the_library(machine, engine):
    x, w, out = Array((3, 512), "bf16", strides=(1024, 1)), Array((128, 512), "bf16"), Array((3, 128), "bf16")
    kiln.n128k512_gemm_bf16(x, w, out=out)
    with pytest.raises(kiln.InvalidArgumentError, match="n128k512_gemm_bf16.*w"):
        kiln.n128k512_gemm_bf16(x, Array((128, 512), "bf16", strides=(1024, 1)), out=out)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        ("mxfp8_quantize", {"x": ((4, 64), "bf16"), "q": ((4, 64), "e4m3"), "sf": ((512,), "e8m0")}),
        ("rope_inplace", {"x": ((4, 2, 512), "bf16"), "freqs": ((16, 32), "complex64"), "positions": ((4,), "i64")}),
    ],
)
def test_every_element_type_arrives(machine, engine, op, shapes):
    kiln.launch(op, **{name: Array(*described) for name, described in shapes.items()})
    assert machine.launches()


def test_an_op_that_works_in_place_returns_nothing(machine, engine):
    assert kiln.rope_inplace(Array((4, 2, 512), "bf16"), Array((16, 32), "complex64"), Array((4,), "i32")) is None


def test_several_outputs_come_as_a_tuple(machine, engine):
    q, sf = Array((4, 64), "e4m3"), Array((512,), "e8m0")
    assert kiln.mxfp8_quantize(Array((4, 64), "bf16"), q=q, sf=sf) == (q, sf)


class Pinned(Array):
    """As torch shows pinned memory: a tensor of the CPU, by DLPack too."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        super().__init__(shape, dtype, device_type=1)
        self.device = types.SimpleNamespace(type="cpu")

    def is_pinned(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return self.address

    def stride(self) -> tuple[int, ...]:
        return self.strides


def test_pinned_memory_of_torch_is_taken_where_an_op_allows_it(machine, engine):
    ids, out = Array((5,), "i64"), Array((5, 64), "bf16")
    kiln.engram_gather(Pinned((100, 64), "e4m3"), Pinned((100, 2), "e8m0"), ids, 0, out=out)
    assert machine.launches()
    with pytest.raises(kiln.InvalidArgumentError, match='"ids".*CUDA device'):
        kiln.engram_gather(Array((100, 64), "e4m3"), Array((100, 2), "e8m0"), Pinned((5,), "i64"), 0, out=out)


def test_memory_is_made_only_for_libraries_that_can(machine, engine):
    x, w, _ = gemm()
    with pytest.raises(kiln.InvalidArgumentError, match="pass what is to be written"):
        kiln.n128k512_gemm_bf16(x, w)
    # Too long for one part, so there is a workspace.
    with pytest.raises(kiln.InvalidArgumentError, match="pass what is to be written"):
        kiln.row_argmax(Array((1, 1 << 20), "f32"), out=Array((1,), "i64"))


def test_wrong_calls_name_the_argument(machine, engine):
    x, w, out = gemm()
    with pytest.raises(ValueError, match="n128k512_gemm_bf16.*x.*bf16.*f32"):
        kiln.n128k512_gemm_bf16(Array((3, 512), "f32"), w, out=out)
    with pytest.raises(ValueError, match="n128k512_gemm_bf16.*w"):
        kiln.n128k512_gemm_bf16(x, Array((128, 512), "bf16", device=1), out=out)
    host = Array((3, 512), "bf16", device_type=1)
    with pytest.raises(ValueError, match='n128k512_gemm_bf16: argument "x": expected a tensor on a CUDA device, found cpu'):
        kiln.n128k512_gemm_bf16(host, w, out=out)
    assert host.asked_for == [None]
    with pytest.raises(ValueError, match="n128k512_gemm_bf16.*out"):
        kiln.n128k512_gemm_bf16(x, w, out=x)
    with pytest.raises(TypeError, match='n128k512_gemm_bf16: argument "w": a .*list is no tensor'):
        kiln.n128k512_gemm_bf16(x, [1.0], out=out)
    with pytest.raises(ValueError, match="n128k512_gemm_bf16.*w.*none"):
        kiln.n128k512_gemm_bf16(x, None, out=out)
    with pytest.raises(ValueError, match="rmsnorm.*eps"):
        kiln.rmsnorm(Array((4, 64), "bf16"), Array((64,), "bf16"), "small", y=Array((4, 64), "bf16"))
    with pytest.raises(TypeError):
        kiln.n128k512_gemm_bf16(x)
    with pytest.raises(TypeError, match="no argument 'z'"):
        kiln.launch("n128k512_gemm_bf16", x, w, out=out, z=1)
    assert machine.launches() == []


def test_an_unknown_op_is_named_with_its_neighbours(engine):
    with pytest.raises(kiln.UnknownOpError, match="rmsnorn.*rmsnorm") as caught:
        kiln.can_use("rmsnorn")
    assert caught.value.status == "unknown_op"
    assert isinstance(caught.value, LookupError)


def test_can_use_says_why_not_and_needs_no_memory(machine, engine):
    w = TensorSpec((128, 512), "bf16")
    assert kiln.can_use("n128k512_gemm_bf16", TensorSpec((8, 512), "bf16"), w)
    assert not kiln.can_use("n128k512_gemm_bf16", TensorSpec((64, 512), "bf16"), w)
    assert "32" in kiln.why_not("n128k512_gemm_bf16", TensorSpec((64, 512), "bf16"), w)
    assert "511" in kiln.why_not("n128k512_gemm_bf16", TensorSpec((8, 511), "bf16"), w)


@pytest.mark.parametrize(("shape", "strides"), [((8.0, 512), None), ((8, 512), (512.0, 1)), (("8", 512), None), ((1 << 62, 512), None)])
def test_a_spec_that_is_none_spoils_no_other(machine, engine, shape, strides):
    w = TensorSpec((128, 512), "bf16")
    with contextlib.suppress(kiln.InvalidArgumentError):
        assert not kiln.can_use("n128k512_gemm_bf16", TensorSpec(shape, "bf16", strides), w)
    assert kiln.can_use("n128k512_gemm_bf16", TensorSpec((8, 512), "bf16"), w)


def test_options_reach_the_launch(machine, engine):
    x, w, out = gemm()
    kiln.n128k512_gemm_bf16(x, w, out=out)
    kiln.n128k512_gemm_bf16(x, w, out=out, options=kiln.LaunchOptions(pdl=False))
    first, second = machine.launches()
    assert second.attributes < first.attributes
    with pytest.raises(ValueError, match="memory_sync_domain"):
        kiln.n128k512_gemm_bf16(x, w, out=out, options=kiln.LaunchOptions(memory_sync_domain="far"))


def test_no_rows_launch_nothing(machine, engine):
    x, w, out = gemm(0)
    kiln.n128k512_gemm_bf16(x, w, out=out)
    assert machine.launches() == []


def test_a_closed_engine_says_so(machine, cache):
    engine = kiln.Engine(driver=machine.driver, cache_root=cache)
    engine.close()
    engine.close()
    with pytest.raises(kiln.InvalidArgumentError, match="closed"):
        engine.stats()


def test_options_of_an_engine_are_checked(tmp_path):
    with pytest.raises(ValueError, match="jit.*allow"):
        kiln.Engine(jit="maybe")
    with pytest.raises(kiln.Error) as caught:
        kiln.Engine(compile_worker=tmp_path / "absent", cache_root=tmp_path).plan(
            "rmsnorm", TensorSpec((3, 64), "bf16"), TensorSpec((64,), "bf16"), 1e-6
        )
    assert caught.value.status in ("io", "driver_unavailable")


@pytest.mark.parametrize(
    "wrong",
    [
        {"cache_max_bytes": -1},
        {"compile_jobs": 10**12},
        {"compile_jobs": "2"},
        {"cache_max_age_seconds": 1.5},
        {"compile_timeout_seconds": 1 << 70},
        {"layers": "/a:/b"},
        {"log": 3},
        {"pdl": "no"},
        {"check": "no"},
    ],
)
def test_an_option_of_the_wrong_kind_is_named(wrong):
    with pytest.raises(kiln.InvalidArgumentError, match=next(iter(wrong))):
        kiln.Engine(**wrong)


def test_an_element_type_that_kiln_has_not_is_an_answer(machine, engine):
    class Half:
        name = "float16"

    w = TensorSpec((128, 512), "bf16")
    assert not kiln.can_use("n128k512_gemm_bf16", TensorSpec((8, 512), Half()), w)
    assert "element type" in kiln.why_not("n128k512_gemm_bf16", w, TensorSpec((128, 512), Half()))
    with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "x": .*element type'):
        kiln.plan("n128k512_gemm_bf16", TensorSpec((8, 512), Half()), w)


def test_forbidden_compiles_are_errors_of_their_own(machine, tmp_path):
    with kiln.Engine(driver=machine.driver, cache_root=tmp_path / "empty", jit="forbid") as engine:
        x, w, out = gemm()
        with pytest.raises(kiln.CompileForbiddenError) as caught:
            engine.launch("n128k512_gemm_bf16", x, w, out=out)
        assert caught.value.status == "compile_forbidden"
        assert engine.stats()["compiles"] == 0


def test_many_threads_call_at_once(machine, engine):
    failures: list[BaseException] = []

    def work(m: int) -> None:
        machine.set_current(machine.context)
        x, w, out = gemm(m)
        try:
            for _ in range(50):
                kiln.n128k512_gemm_bf16(x, w, out=out)
        except BaseException as error:  # noqa: BLE001 (it is told below)
            failures.append(error)

    threads = [threading.Thread(target=work, args=(1 + i % 3,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(machine.launches()) == 8 * 50


def test_a_thread_without_a_context_is_told(machine, engine):
    machine.set_current(None)
    with pytest.raises(kiln.InvalidArgumentError, match="n128k512_gemm_bf16.*context"):
        kiln.n128k512_gemm_bf16(*gemm(31)[:2], out=gemm(31)[2])


def test_what_has_no_memory_is_never_launched(machine, engine):
    x, w, out = gemm()
    spec = TensorSpec((3, 512), "bf16")
    plan = kiln.plan("n128k512_gemm_bf16", x, w)
    for call in (
        lambda: kiln.n128k512_gemm_bf16(spec, w, out=out),
        lambda: kiln.n128k512_gemm_bf16(spec, TensorSpec((128, 512), "bf16")),
        lambda: plan(spec, w, out=out),
        lambda: plan.launch(spec, w, out),
    ):
        with pytest.raises(TypeError, match='n128k512_gemm_bf16: argument "x": a TensorSpec has no memory'):
            call()
    with pytest.raises(TypeError, match='n128k512_gemm_bf16: argument "out": a TensorSpec has no memory'):
        kiln.n128k512_gemm_bf16(x, w, out=TensorSpec((3, 128), "bf16"))
    assert machine.launches() == []


def test_a_workspace_is_looked_at_before_it_is_used(machine, engine):
    logits, out = Array((1, 1 << 20), "f32"), Array((1,), "i64")
    needed = kiln.workspace_bytes("row_argmax", logits, out=out)

    def launch(workspace) -> None:
        kiln.row_argmax(logits, out=out, workspace=workspace)

    for workspace, said in (
        (Array((needed,), "u8", device_type=1), "workspace must be memory of a CUDA device"),
        (Array((needed,), "u8", device=1), "workspace must lie on cuda:0.*found cuda:1"),
        (Array((needed,), "u8", strides=(2,)), "workspace must be contiguous"),
        (TensorSpec((needed,), "u8"), "workspace: a TensorSpec has no memory"),
        (3, "workspace: a builtins.int is no tensor"),
        (Array((needed - 1,), "u8"), f"needs {needed} bytes.*{needed - 1}"),
    ):
        with pytest.raises(kiln.InvalidArgumentError, match=f"row_argmax:? {said}"):
            launch(workspace)
    assert machine.launches() == []
    launch(Array((-(-needed // 4),), "f32"))
    assert machine.launches()


def test_outputs_are_made_for_no_host_tensor(machine, engine):
    host = Array((3, 512), "bf16", device_type=1)
    with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "x": expected a tensor on a CUDA device'):
        kiln.n128k512_gemm_bf16(host, gemm()[1])
    with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "out": no memory is allocated'):
        kiln.n128k512_gemm_bf16(*gemm()[:2])


def test_a_scalar_type_of_numpys_describes_a_tensor(machine, engine):
    float32 = type("float32", (), {})
    x, w = TensorSpec((4, 64), float32), TensorSpec((64,), float32)
    assert kiln.can_use("rmsnorm_fp32", x, w, 1e-6)
    assert not kiln.can_use("rmsnorm_fp32", TensorSpec((4, 64), type("float64", (), {})), w, 1e-6)


def test_a_users_own_error_is_none_that_the_library_raises(machine, engine):
    class Own(kiln.Error):
        status = "invalid_argument"

        def __init__(self, a, b): ...

    with pytest.raises(kiln.InvalidArgumentError):
        kiln.prebuild([])


def test_a_tensor_without_axes_is_outside_the_contract_in_words(machine, engine):
    with pytest.raises(kiln.InvalidArgumentError, match="rmsnorm: "):
        kiln.rmsnorm(Array((4, 64), "bf16"), Array((), "bf16"), 1e-6, y=Array((4, 64), "bf16"))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"data": (1 << 20, True)}, 'argument "out": .*read-only'),
        ({"mask": object()}, "mask"),
        ({"strides": (9,)}, "multiples"),
        ({"strides": (8, 8)}, "1 axes has 2 strides"),
        ({"stream": 0}, "stream"),
        ({"data": None}, "lacks data"),
    ],
)
def test_what_the_cuda_array_interface_says_is_heeded(machine, engine, changed, said):
    out = CudaArray(Array((4,), "i64"), "<i8", 8)
    described = {**out.__cuda_array_interface__, **changed}
    out.__cuda_array_interface__ = {name: value for name, value in described.items() if name != "data" or value is not None}
    with pytest.raises(kiln.InvalidArgumentError, match=f"row_argmax: .*{said}"):
        kiln.row_argmax(Array((4, 1000), "f32"), out=out)
    assert machine.launches() == []


def test_what_dlpack_says_of_versions_and_writing_is_heeded(machine, engine):
    class Versioned(Array):
        flags, major = 0, 1

        def __dlpack__(self, *, stream: int | None = None, **_):
            capsule = self.view().__dlpack__(max_version=(1, 0))
            described = versioned(capsule)
            described.flags, described.major = described.flags | self.flags, self.major
            return capsule

    x, w, _ = gemm()
    out = Versioned((3, 128), "bf16")
    kiln.n128k512_gemm_bf16(x, w, out=out)
    out.flags = 1
    with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "out": .*read-only'):
        kiln.n128k512_gemm_bf16(x, w, out=out)
    read_only = Versioned((3, 512), "bf16")
    read_only.flags = 1
    kiln.n128k512_gemm_bf16(read_only, w, out=Array((3, 128), "bf16"))
    out.flags, out.major = 0, 2
    with pytest.raises(kiln.InvalidArgumentError, match='n128k512_gemm_bf16: argument "out": .*DLPack 2'):
        kiln.n128k512_gemm_bf16(x, w, out=out)
    assert len(machine.launches()) == 2


def test_what_is_given_beside_the_arguments_is_checked(machine, engine):
    x, w, out = gemm()
    for wrong, said in (
        ({"stream": True}, "stream"),
        ({"stream": 10**30}, "stream"),
        ({"stream": -1}, "stream"),
        ({"options": "x"}, "n128k512_gemm_bf16: options must be a kiln.LaunchOptions, found a str"),
    ):
        with pytest.raises(kiln.InvalidArgumentError, match=said):
            kiln.n128k512_gemm_bf16(x, w, out=out, **wrong)
    for wrong in ({"pdl": "no"}, {"priority": "high"}, {"priority": 1 << 40}, {"serialize": 1}):
        with pytest.raises(kiln.InvalidArgumentError, match=f"LaunchOptions: {next(iter(wrong))}"):
            kiln.LaunchOptions(**wrong)
    for name in (3, None, b"rmsnorm"):
        with pytest.raises(kiln.ArgumentTypeError, match="name is a str"):
            kiln.can_use(name)
    y = Array((4, 64), "bf16")
    for eps, said in (("1", "found a str"), (10**30, "64 bits")):
        with pytest.raises(kiln.InvalidArgumentError, match=f'rmsnorm: argument "eps".*{said}'):
            kiln.rmsnorm(y, Array((64,), "bf16"), eps, y=Array((4, 64), "bf16"))
    assert machine.launches() == []


def test_a_question_about_a_call_is_answered_whatever_the_shape(machine, engine):
    w = TensorSpec((128, 512), "bf16")
    assert not kiln.can_use("n128k512_gemm_bf16", TensorSpec((8,), "bf16"), w)
    reason = kiln.why_not("n128k512_gemm_bf16", TensorSpec((8,), "bf16"), w)
    assert '"x"' in reason and type(reason) is str


def test_a_tensor_spec_is_checked_when_it_is_made(machine, engine):
    for wrong in (((8.0, 512), "bf16"), (8, "bf16"), ((-1, 512), "bf16"), ((8,), "f99"), ((8,), "bf16", (1, 1))):
        with pytest.raises(kiln.InvalidArgumentError, match="TensorSpec"):
            TensorSpec(*wrong)
    assert hash(TensorSpec([8, 512], "bf16")) == hash(TensorSpec((8, 512), "bf16"))  # type: ignore[arg-type]
    assert kiln.can_use("n128k512_gemm_bf16", TensorSpec((8, 512), "bf16"), TensorSpec((128, 512), "bf16"))
    for device in (1 << 31, 1 << 32, 1 << 40):
        with pytest.raises(kiln.InvalidArgumentError, match=f"TensorSpec: device is {device}, which no machine has"):
            TensorSpec((8, 512), "bf16", device=device)


def test_a_device_that_no_machine_has_is_refused(machine, engine):
    x, w, y = Array((4, 64), "f32"), Array((64,), "f32"), Array((4, 64), "f32")
    cuda = CudaArray(x, "<f4", 4)
    cuda.context = types.SimpleNamespace(device=types.SimpleNamespace(id=1 << 32))
    with pytest.raises(kiln.InvalidArgumentError, match=f'rmsnorm_fp32: argument "x": its device is {1 << 32}, which no machine has'):
        kiln.rmsnorm_fp32(cuda, w, 1e-6, y=y)
    assert machine.launches() == []


class Bare:
    """What DLPack asks for, and nothing more."""

    def __init__(self, array: Array) -> None:
        self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

    def __dlpack__(self, **_: object) -> None: ...

    def __dlpack_device__(self) -> None: ...


def test_what_an_output_would_follow_and_a_producer_does_not_say_is_named(machine, engine):
    x, w, out = gemm()
    with pytest.raises(kiln.ArgumentTypeError, match='n128k512_gemm_bf16: argument "x": a Bare without shape.*pass the output'):
        kiln.n128k512_gemm_bf16(Bare(x), w)
    assert machine.launches() == []
    kiln.n128k512_gemm_bf16(Bare(x), w, out=out)
    assert len(machine.launches()) == 1
