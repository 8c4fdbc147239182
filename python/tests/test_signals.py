"""Exceptions of signals' handlers, which Python raises as a call of the binding returns: they come out, and nothing is launched again."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from machine import Array

import kiln
from kiln import _engine, _native, _producers, _short

OP = "rope_inplace"


class Stop(Exception):
    pass


@pytest.fixture(params=[RuntimeError, AttributeError, KeyboardInterrupt, Stop])
def raised(request) -> Iterator[type[BaseException]]:
    def handler(*_: object) -> None:
        raise request.param("from the handler")

    before = signal.signal(signal.SIGALRM, handler)
    yield request.param
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def tensors(machine, engine):
    """Of a type that takes the short way, as torch's do."""
    views = Array((4, 2, 512), "bf16").view(), Array((16, 32), "complex64").view(), Array((4,), "i64").view()
    _producers.direct_types.add(type(views[0]))
    yield views
    _producers.direct_types.discard(type(views[0]))


def forms(tensors):
    plan = kiln.plan(OP, *tensors)
    return {
        "function": lambda: kiln.rope_inplace(*tensors),
        "by name": lambda: kiln.launch(OP, *tensors),
        "plan": lambda: plan(*tensors),
        "plan, all given": lambda: plan.launch(*tensors),
    }


def with_a_signal(launcher):
    def launch(*values):
        launcher(*values)
        signal.raise_signal(signal.SIGALRM)

    return launch


@pytest.mark.parametrize("form", ["function", "by name"])
def test_what_a_handler_raises_after_a_launch_comes_out(machine, engine, tensors, raised, form):
    call = forms(tensors)[form]
    call()
    machine.forget()
    for launchers in (_engine.fast, engine.launchers):
        vars(launchers)[OP] = with_a_signal(getattr(launchers, OP))
    with pytest.raises(raised, match="from the handler"):
        call()
    assert len(machine.launches()) == 1


def test_it_comes_out_of_a_plan(machine, tensors, raised):
    plan = kiln.plan(OP, *tensors)
    plan._launcher = with_a_signal(plan._launcher)
    with pytest.raises(raised, match="from the handler"):
        plan(*tensors)
    assert len(machine.launches()) == 1


def test_it_comes_out_of_a_call_that_says_more_than_its_arguments(machine, tensors, raised, monkeypatch):
    producer, real = _producers.Producer(), _native.function
    monkeypatch.setattr(_short, "quick_producer_of", lambda value: producer if type(value) is type(tensors[0]) else None)
    monkeypatch.setattr(_native, "function", lambda name: with_a_signal(real(name)) if name == "op_launch" else real(name))
    with pytest.raises(raised, match="from the handler"):
        kiln.rope_inplace(*tensors, options=kiln.LaunchOptions(constants_ready=False))
    assert len(machine.launches()) == 1


@pytest.mark.parametrize("form", ["function", "by name", "plan", "plan, all given"])
def test_at_whatever_time_it_comes_it_comes_out_and_nothing_is_launched_twice(machine, tensors, raised, form):
    call = forms(tensors)[form]
    for round_ in range(100):
        machine.forget()
        calls = 0
        with pytest.raises(raised, match="from the handler"):
            signal.setitimer(signal.ITIMER_REAL, 0.0001 + round_ * 1e-6)
            while calls < 1_000_000:
                calls += 1
                call()
        assert len(machine.launches()) <= calls
