"""Whole ops: compiled ahead for targets that are not here, and warmed up for the one that is."""

from __future__ import annotations

import pytest
from machine import Array
from test_own_op import register

import kiln

GEMM = "n128k512_gemm_bf16"


def test_ops_are_compiled_ahead_without_a_driver_and_serve_an_engine_that_may_not_compile(machine, tmp_path):
    told: list[tuple[int, int, str]] = []
    with kiln.Engine(driver=tmp_path / "no-driver.so", cache_root=tmp_path / "cache") as engine:
        report = engine.prebuild(["sm_90a"], ops=["n*_gemm_bf16"], progress=lambda *step: told.append(step))
        again = engine.prebuild(["sm_90a"], ops=["n*_gemm_bf16"])
    assert report.compiled == again.cached > 1
    assert (report.cached, report.failed, report.failures, again.compiled) == (0, 0, (), 0)
    assert told[-1][:2] == (report.compiled, report.compiled)
    with kiln.Engine(driver=machine.driver, cache_root=tmp_path / "cache", jit="forbid") as strict:
        strict.launch(GEMM, Array((3, 512), "bf16"), Array((128, 512), "bf16"), out=Array((3, 128), "bf16"))
    assert machine.launches()


def test_an_op_of_ones_own_is_compiled_ahead_and_warmed_up(machine, tmp_path):
    with kiln.Engine(driver=machine.driver, cache_root=tmp_path) as engine:
        register(engine)
        assert engine.prebuild(["sm_90a", "sm_100a"], ops=["py_axpy"]).compiled == 2
        report = engine.warmup(ops=["py_axpy"])
        assert (report.prepared, report.compiled, report.loaded) == (1, 0, 1)


def test_a_warmup_of_an_op_has_every_kernel_of_it_ready(machine, engine):
    assert kiln.warmup(ops=[GEMM]).prepared >= 1
    before = kiln.stats()
    for m in (1, 100, 5000):
        kiln.n128k512_gemm_bf16(Array((m, 512), "bf16"), Array((128, 512), "bf16"), out=Array((m, 128), "bf16"))
    after = kiln.stats()
    assert (before["compiles"], before["libraries_loaded"]) == (after["compiles"], after["libraries_loaded"])


def test_what_a_target_does_not_serve_is_skipped_and_nothing_at_all_is_an_error(engine):
    assert kiln.prebuild(["sm_90a", "sm_80"], ops=["rmsnorm_fp32"]).skipped == 1
    with pytest.raises(kiln.UnsupportedTargetError, match="rmsnrm"):
        kiln.prebuild(["sm_90a"], ops=["rmsnrm"])
    with pytest.raises(kiln.UnknownOpError, match="rmsnrm"):
        kiln.warmup(ops=["rmsnrm"])


def test_what_cannot_be_compiled_is_in_the_report_or_raised(machine, tmp_path):
    with kiln.Engine(driver=machine.driver, cache_root=tmp_path) as engine:
        register(engine, sources={"axpy.cu": "template <int BLOCK> __global__ void axpy() { this is no CUDA }"})
        report = engine.prebuild(["sm_90a"], ops=["py_axpy"], strict=False)
        assert (report.compiled, report.failed, report.failures[0].status) == (0, 1, "compile_failed")
        with pytest.raises(kiln.CompileFailedError, match="py_axpy"):
            engine.prebuild(["sm_90a"], ops=["py_axpy"])


def test_an_exception_of_the_progress_ends_a_prebuild(machine, tmp_path):
    def progress(done: int, total: int, name: str) -> None:
        raise KeyboardInterrupt

    with kiln.Engine(driver=machine.driver, cache_root=tmp_path) as engine, pytest.raises(KeyboardInterrupt):
        engine.prebuild(["sm_90a"], ops=["n*_gemm_bf16"], progress=progress)


def test_what_names_no_ops_or_targets_is_said(engine):
    wrong = {
        "targets is 'sm_90a'; it must be a list": lambda: kiln.prebuild("sm_90a"),
        "targets has 90": lambda: kiln.prebuild([90]),
        "ops is empty": lambda: kiln.prebuild(["sm_90a"], ops=[]),
        "ops is 'rmsnorm'; it must be a list": lambda: kiln.warmup(ops="rmsnorm"),
        "sm_9x": lambda: kiln.prebuild(["sm_9x"]),
        "jobs is -1": lambda: kiln.prebuild(["sm_90a"], jobs=-1),
    }
    for said, call in wrong.items():
        with pytest.raises(kiln.Error, match=said):
            call()
