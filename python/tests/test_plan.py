"""Plans, warm-ups and prefetches."""

from __future__ import annotations

import signal

import pytest
from machine import Array

import kiln
from kiln import Call, TensorSpec

GEMM = "n128k512_gemm_bf16"


def specs(m: int = 3) -> tuple[TensorSpec, TensorSpec]:
    return TensorSpec((m, 512), "bf16"), TensorSpec((128, 512), "bf16")


def arrays(m: int = 3) -> tuple[Array, Array, Array]:
    return Array((m, 512), "bf16"), Array((128, 512), "bf16"), Array((m, 128), "bf16")


def test_a_plan_is_made_from_shapes_and_launched_with_tensors(machine, engine):
    plan = kiln.plan(GEMM, *specs())
    assert machine.launches() == []
    x, w, out = arrays()
    plan.launch(x, w, out)
    assert plan(x, w, out=out) is out
    stream = machine.make_stream()
    plan(x, w, out=out, stream=stream, options=kiln.LaunchOptions(pdl=False))
    assert [launch.stream for launch in machine.launches()] == [0, 0, stream]
    assert plan.workspace_bytes == 0


def test_a_plan_wants_all_arguments(machine, engine):
    plan = kiln.plan(GEMM, *specs())
    with pytest.raises(ValueError, match="3 arguments \\(x, w, out\\), and 2 came"):
        plan.launch(*arrays()[:2])
    with pytest.raises(ValueError, match="3 arguments"):
        plan.launch(1, 2)


def test_what_a_plan_makes_is_as_it_was_planned(machine, engine):
    plan, unlike = kiln.plan(GEMM, *specs(3)), "the plan is for \\[3, 512\\], found "
    for m in (2, 5, 0):
        x, w, out = arrays(m)
        with pytest.raises(kiln.InvalidArgumentError, match=f'^{GEMM}: argument "x": {unlike}\\[{m}, 512\\]: make a plan for that'):
            plan(x, w)
    with pytest.raises(kiln.InvalidArgumentError, match=f"{unlike}\\[1536\\]"):
        plan(Array((1536,), "bf16"), w)
    with pytest.raises(kiln.InvalidArgumentError, match="no memory is allocated for tensors of machine"):
        plan(*arrays(3)[:2])  # All that stands in the way.
    assert machine.launches() == []
    plan = kiln.plan("rmsnorm_fp32", TensorSpec((3, 64), "f32"), TensorSpec((64,), "f32"), 1e-6)
    with pytest.raises(kiln.InvalidArgumentError, match='^rmsnorm_fp32: argument "x": the plan is for f32, found bf16'):
        plan(Array((3, 64), "bf16"), Array((64,), "f32"), 1e-6)
    for wrong, said in ((3, "is no tensor"), (None, "must be given")):
        with pytest.raises(kiln.InvalidArgumentError, match=said):
            plan(wrong, Array((64,), "f32"), 1e-6)


def test_a_plan_ends_with_its_engine(machine, cache):
    with kiln.Engine(driver=machine.driver, cache_root=cache) as engine:
        plan = engine.plan(GEMM, *specs())
    with pytest.raises(kiln.InvalidArgumentError, match="closed"):
        plan.launch(*arrays())
    with pytest.raises(kiln.InvalidArgumentError, match="closed"):
        plan.launch(None, None, None)


def test_a_warmup_gets_calls_ready_and_tells_what_it_did(machine, engine):
    told: list[tuple[int, int, str]] = []
    report = kiln.warmup([Call(GEMM, *specs(m)) for m in (1, 2)], progress=lambda *progress: told.append(progress))
    assert (report.prepared, report.failed) == (2, 0)
    assert report.loaded >= 1
    assert told and told[-1][0] == told[-1][1]
    before = kiln.stats()
    kiln.n128k512_gemm_bf16(*arrays(1)[:2], out=arrays(1)[2])
    after = kiln.stats()
    assert (before["compiles"], before["libraries_loaded"]) == (after["compiles"], after["libraries_loaded"])


def test_a_warmup_goes_on_past_what_cannot_be_had(machine, tmp_path):
    with kiln.Engine(driver=machine.driver, cache_root=tmp_path / "empty", jit="forbid") as engine:
        report = engine.warmup([Call(GEMM, *specs())], strict=False)
        assert (report.prepared, report.failed) == (0, 1)
        assert report.failures[0].status == "compile_forbidden"
        with pytest.raises(kiln.CompileForbiddenError, match=GEMM):
            engine.warmup([Call(GEMM, *specs())])


def test_an_exception_of_the_progress_ends_a_warmup(machine, engine):
    told: list[int] = []

    def progress(done: int, total: int, name: str) -> None:
        told.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kiln.warmup([Call(GEMM, *specs(m)) for m in range(1, 9)], progress=progress)
    assert len(told) == 1


def test_the_cache_says_where_it_looks(machine, engine, cache):
    kiln.plan(GEMM, *specs())
    ((path, hits),) = engine.cache_layers()
    assert path == str(cache)
    assert hits == engine.stats()["cache_hits"]
    assert engine.device_targets()[:2] == ["sm_90a", "sm_90"]


def test_a_prefetch_finishes_and_raises_what_went_wrong(machine, engine, tmp_path):
    prefetch = kiln.prefetch(GEMM, *specs())
    assert prefetch.wait()
    assert prefetch.ready()
    with kiln.Engine(driver=machine.driver, cache_root=tmp_path / "empty", jit="forbid") as strict:
        with pytest.raises(kiln.CompileForbiddenError):
            strict.prefetch(GEMM, *specs()).wait(60)


def test_kernels_are_unloaded_when_asked(machine, cache):
    with kiln.Engine(driver=machine.driver, cache_root=cache) as engine:
        plan = engine.plan(GEMM, *specs())
        assert engine.unload() == 1
        with pytest.raises(kiln.NotLoadedError):
            plan.launch(*arrays())


@pytest.mark.parametrize("progress", [None, lambda *_: None])
def test_a_signal_whose_handler_raises_ends_the_warmup(machine, tmp_path, progress):
    class Rang(BaseException):
        pass

    def ring(*_: object) -> None:
        raise Rang

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with kiln.Engine(driver=machine.driver, cache_root=tmp_path / "empty") as engine, pytest.raises(Rang):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            engine.warmup([Call(GEMM, *specs(m)) for m in range(1, 33)], progress=progress)
            signal.pause()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_warmup_says_what_it_cannot_take(machine, engine):
    with pytest.raises(kiln.ArgumentTypeError, match="kiln.Call.*str"):
        kiln.warmup(["rmsnorm"])
    for jobs in (-1, 1 << 40):
        with pytest.raises(kiln.InvalidArgumentError, match="jobs"):
            kiln.warmup([], jobs=jobs)
    with pytest.raises(kiln.InvalidArgumentError) as caught:
        kiln.warmup([Call(GEMM, Array((3, 512), "f32"), specs()[1])])
    assert str(caught.value).count(GEMM) == 1


def test_any_time_can_be_waited_for(machine, engine):
    prefetch = kiln.prefetch(GEMM, *specs())
    assert prefetch.wait(float("inf"))
    assert prefetch.wait(1e12)
