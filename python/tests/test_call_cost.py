"""What a call costs in Python, printed and never judged: pytest -s shows it."""

from __future__ import annotations

import time

from machine import Array

import kiln
from kiln import _engine, _producers


def test_the_cost_of_a_call_is_printed(machine, engine):
    x, w, out = Array((3, 512), "bf16"), Array((128, 512), "bf16"), Array((3, 128), "bf16")
    kiln.n128k512_gemm_bf16(x, w, out=out)
    views = [array.view() for array in (x, w, out)]
    machine.set_recording(False)
    rounds = 2000

    def measure(call) -> float:
        start = time.perf_counter()
        for _ in range(rounds):
            call()
        return (time.perf_counter() - start) / rounds * 1e6

    direct = measure(lambda: _engine.fast.n128k512_gemm_bf16(*views))
    # As a type with the C exchange of DLPack goes; its tensors cost their library's export on top.
    _producers.direct_types.add(type(views[0]))
    try:
        function = measure(lambda: kiln.n128k512_gemm_bf16(*views[:2], out=views[2]))
    finally:
        _producers.direct_types.discard(type(views[0]))
    slow = measure(lambda: kiln.n128k512_gemm_bf16(x, w, out=out))
    plan = kiln.plan("n128k512_gemm_bf16", *views[:2], out=views[2])
    planned = measure(lambda: plan._launcher(*views))
    print(f"\nus a call, fake driver: launcher {direct:.2f}, function {function:.2f}, plan {planned:.2f}, any producer {slow:.2f}")
    machine.set_recording(True)
