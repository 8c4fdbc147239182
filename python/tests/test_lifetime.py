"""Engines that are closed, replaced or dropped while something uses them."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from machine import Array

import kiln
from kiln import Call, TensorSpec, _engine

GEMM = "n128k512_gemm_bf16"


def arrays() -> tuple[Array, Array, Array]:
    return Array((3, 512), "bf16"), Array((128, 512), "bf16"), Array((3, 128), "bf16")


def specs() -> tuple[TensorSpec, TensorSpec]:
    return TensorSpec((3, 512), "bf16"), TensorSpec((128, 512), "bf16")


def in_threads(machine, work, count: int, meanwhile) -> list[BaseException]:
    """Runs `work` on so many threads and `meanwhile` on this one; what the threads raised."""
    raised: list[BaseException] = []
    started = threading.Barrier(count + 1)

    def run() -> None:
        machine.set_current(machine.context)
        started.wait()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 (it is told)
            raised.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    started.wait()
    meanwhile()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.parametrize("_", range(5))
def test_calls_that_run_when_their_engine_is_closed_finish_and_later_ones_are_told(machine, cache, _):
    machine.set_recording(False)
    engine = kiln.Engine(driver=machine.driver, cache_root=cache)
    x, w, out = arrays()
    engine.launch(GEMM, x, w, out=out)
    views = [array.view() for array in (x, w, out)]
    plan, launcher = engine.plan(GEMM, *specs()), getattr(engine.launchers, GEMM)
    ways = [
        lambda: engine.launch(GEMM, x, w, out=out),
        lambda: plan.launch(x, w, out),
        lambda: launcher(*views),
        lambda: engine.warmup([Call(GEMM, *specs())]),
    ]
    turns = iter(ways)
    lock = threading.Lock()

    def until_closed() -> None:
        with lock:
            way = next(turns)
        while True:
            way()

    raised = in_threads(machine, until_closed, len(ways), engine.close)
    assert len(raised) == len(ways)
    assert all(isinstance(error, kiln.InvalidArgumentError) and "closed" in str(error) for error in raised)


def test_replacing_the_default_engine_disturbs_no_call(machine, engine, cache):
    machine.set_recording(False)
    x, w, out = arrays()
    kiln.n128k512_gemm_bf16(x, w, out=out)
    views = [array.view() for array in (x, w, out)]

    def call_often() -> None:
        for _ in range(100):
            kiln.n128k512_gemm_bf16(x, w, out=out)
            _engine.fast.n128k512_gemm_bf16(*views)
            kiln.launch(GEMM, x, w, out=out)

    def replace_often() -> None:
        for _ in range(20):
            kiln.set_default_engine(kiln.Engine(driver=machine.driver, cache_root=cache))

    assert in_threads(machine, call_often, 4, replace_often) == []


def test_a_launcher_outlives_whoever_held_its_engine(machine, cache):
    engine = kiln.Engine(driver=machine.driver, cache_root=cache)
    x, w, out = (array.view() for array in arrays())
    launcher = getattr(engine.launchers, GEMM)
    del engine
    gc.collect()
    launcher(x, w, out)
    assert len(machine.launches()) == 1


def test_what_the_engine_calls_may_close_it(machine, cache):
    engines: list[kiln.Engine] = []

    def close(*_: object) -> None:
        for engine in engines:
            engine.close()

    engines.append(kiln.Engine(driver=machine.driver, cache_root=cache, check=True, log=close))
    x, w, out = arrays()
    for array in (x, w, out):
        machine.add_memory(array.address, 1 << 24)
    engines[0].launch(GEMM, x, w, out=out)
    assert len(machine.launches()) == 1
    with pytest.raises(kiln.InvalidArgumentError, match="the engine was closed"):
        engines[0].launch(GEMM, x, w, out=out)

    engines[:] = [kiln.Engine(driver=machine.driver, cache_root=cache)]
    assert engines[0].warmup([Call(GEMM, *specs())], progress=close).prepared == 1
    with pytest.raises(kiln.InvalidArgumentError, match="the engine was closed"):
        engines[0].stats()


def test_a_line_of_the_engines_own_thread_may_close_it(machine, tmp_path):
    closed = threading.Event()
    engines: list[kiln.Engine] = []

    def close(level: int, line: str) -> None:
        for engine in engines:
            engine.close()
            closed.set()

    engines.append(kiln.Engine(driver=machine.driver, cache_root=tmp_path / "empty", jit="warn", log=close, log_level="debug"))
    prefetch = engines[0].prefetch(GEMM, *specs())
    assert closed.wait(60)
    try:
        assert prefetch.wait(60)
    except kiln.Error as error:  # It was given up with its engine.
        assert error.status == "cancelled"


def test_nothing_that_there_is_only_one_of_is_copied(machine, engine):
    only = (engine, engine.launchers, kiln.plan(GEMM, *specs()), kiln.prefetch(GEMM, *specs()))
    for one in only:
        for make in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"kiln.{type(one).__name__} can neither be copied nor pickled"):
                make(one)
    only[3].wait()


def test_a_default_engine_must_be_one_and_open(machine, cache):
    with pytest.raises(TypeError, match="kiln.Engine.*str"):
        kiln.set_default_engine("x")
    with kiln.Engine(driver=machine.driver, cache_root=cache) as engine:
        pass
    with pytest.raises(kiln.InvalidArgumentError, match="closed"):
        kiln.set_default_engine(engine)


def test_a_closed_plan_says_so_whatever_is_asked_of_it(machine, engine):
    plan = kiln.plan(GEMM, *specs())
    plan.close()
    plan.close()
    with pytest.raises(kiln.InvalidArgumentError, match="the plan was closed"):
        plan.workspace_bytes  # noqa: B018


def test_a_forked_child_ends_though_its_parent_had_threads(machine, engine):
    kiln.prefetch(GEMM, *specs()).wait()
    child = os.fork()
    if child == 0:
        try:
            engine.close()
        finally:
            os._exit(0)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    if ended[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended == (child, 0)


def test_a_call_while_the_process_ends_is_told_so(tmp_path):
    code = """
import atexit
def late():
    for call in (lambda: kiln.stats(), lambda: kiln.row_argmax(None, out=None)):
        try:
            call()
        except kiln.InvalidArgumentError as error:
            print(error)
atexit.register(late)
import kiln
kiln.stats()
"""
    environment = {**os.environ, "HOME": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert result.stdout.splitlines() == ["the engine was closed, since the process is ending"] * 2, result.stderr


LATE = """
import atexit
kept = []
def late():
    engine = new()
    kept.append(engine.launchers.rmsnorm)
atexit.unregister(_engine._close_all)
atexit.register(late)  # Which runs after it.
atexit.register(_engine._close_all)
"""

# What a program leaves behind as it ends, each with an engine that is ended on another thread or not before the interpreter goes.
LEFT_BEHIND = {
    "a launcher": "engine = new(); launcher = engine.launchers.rmsnorm; del engine",
    "an object that held a launcher": """
class Holder: pass
holder = Holder()
holder.engine = new()
holder.launcher = holder.engine.launchers.rmsnorm
del holder
""",
    "many engines": """
for _ in range(20):
    engine = new()
    launcher = engine.launchers.rmsnorm
""",
    "a receiver of lines": """
class Holder:
    def __init__(self):
        self.engine = new(log=self.told)
        self.launcher = self.engine.launchers.rmsnorm
    def told(self, level, line): pass
holder = Holder()
del holder.engine
""",
    "an engine of the very end": LATE,
    "an engine of the very end, and one before": "new().stats()" + LATE,
}


@pytest.mark.parametrize("left", LEFT_BEHIND)
def test_a_process_ends_well_whatever_engines_are_left(tmp_path, left):
    setup = f"""
import kiln
from kiln import _engine
def new(**options):
    return kiln.Engine(cache_root={str(tmp_path / "cache")!r}, **options)
"""
    for _ in range(8):
        result = subprocess.run([sys.executable, "-c", setup + LEFT_BEHIND[left]], capture_output=True, text=True, timeout=120)
        assert (result.returncode, result.stderr) == (0, "")


def test_a_process_ends_well_with_a_plan_and_a_compile_under_way(machine, cache, tmp_path):
    # The plan lets go of the engine's last object, and lines of the compile may come until the end.
    code = f"""
import kiln, logging
from kiln import TensorSpec
from pathlib import Path
from machine import Machine
machine = Machine(Path({str(machine.driver)!r}), Path({str(tmp_path)!r}) / "own")
machine.enter()
x, w = TensorSpec((3, 512), "bf16"), TensorSpec((128, 512), "bf16")
class Model:
    def __init__(self, cache, **options):
        self.engine = kiln.Engine(driver=machine.driver, cache_root=cache, **options)
        self.plan = self.engine.plan("n128k512_gemm_bf16", x, w)
def main():
    Model({str(cache)!r})
    model = Model({str(cache)!r}, log=lambda level, line: None, log_level="debug")
    model.engine.prefetch("rmsnorm", x, TensorSpec((512,), "bf16"), 1e-6)
    return model.engine.launchers.rmsnorm
launcher = main()
"""
    (tmp_path / "own").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    for _ in range(8):
        result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
        assert (result.returncode, result.stderr) == (0, "")


def test_a_forked_child_ends_though_its_parent_is_ending_an_engine(machine, cache):
    code = f"""
import os, kiln
engine = kiln.Engine(cache_root={str(cache)!r})
launcher = engine.launchers.rmsnorm
del engine, launcher
child = os.fork()
if child:
    assert os.waitpid(child, 0) == (child, 0)
"""
    for _ in range(8):
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert (result.returncode, result.stderr) == (0, "")
