"""KILN_CHECK=1: every call leaves a line."""

from __future__ import annotations

import logging
import re

from machine import Array

import kiln


def test_a_checked_call_is_logged_with_dtypes_shapes_strides_and_stream(machine, cache, monkeypatch, caplog):
    monkeypatch.setenv("KILN_CHECK", "1")
    x, w, out = Array((3, 512), "bf16", strides=(1024, 1)), Array((128, 512), "bf16"), Array((3, 128), "bf16")
    for array in (x, w, out):
        machine.add_memory(array.address, 1 << 24)
    stream = machine.make_stream()
    with caplog.at_level(logging.INFO, logger="kiln"), kiln.Engine(driver=machine.driver, cache_root=cache) as engine:
        engine.launch("n128k512_gemm_bf16", x, w, out=out, stream=stream)
        engine.launch("n128k512_gemm_bf16", x, w, out=out, stream=stream)
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("launch ")]
    assert len(lines) == 2
    for line in lines:
        assert re.search(r"n128k512_gemm_bf16: x bf16\[3, 512\] strides \[1024, 1\] at 0x", line)
        assert f"stream {stream:#x}" in line


def test_log_lines_go_where_one_says(machine, cache, tmp_path):
    lines: list[tuple[int, str]] = []
    with kiln.Engine(
        driver=machine.driver, cache_root=cache, jit="warn", log=lambda level, line: lines.append((level, line)), log_level="debug"
    ) as engine:
        engine.plan("rmsnorm", kiln.TensorSpec((3, 64), "bf16"), kiln.TensorSpec((64,), "bf16"), 1e-6)
    assert lines
    assert {level for level, _ in lines} <= {logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR}


def test_a_receiver_that_raises_stops_no_call(machine, cache):
    def refuse(level: int, line: str) -> None:
        raise RuntimeError(line)

    with kiln.Engine(driver=machine.driver, cache_root=cache, check=True, log=refuse) as engine:
        x, w, out = Array((3, 512), "bf16"), Array((128, 512), "bf16"), Array((3, 128), "bf16")
        for array in (x, w, out):
            machine.add_memory(array.address, 1 << 24)
        engine.launch("n128k512_gemm_bf16", x, w, out=out)
    assert machine.launches()
