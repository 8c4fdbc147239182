"""KILN_CHECK=1: every call leaves a line."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
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


LOGGING = """
import ctypes, logging, sys
driver = sys.argv[1]
ctypes.CDLL(driver).kiln_fake_enter(0)
import kiln
from machine import Array
{before}
engine = kiln.Engine(driver=driver, cache_root=sys.argv[2], check=True)
{after}
arrays = [Array((3, 512), "bf16"), Array((128, 512), "bf16"), Array((3, 128), "bf16")]
for array in arrays:
    ctypes.CDLL(driver).kiln_fake_add_memory(ctypes.c_uint64(array.address), ctypes.c_uint64(1 << 24), 0)
engine.launch("n128k512_gemm_bf16", *arrays[:2], out=arrays[2])
"""


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("", "", 1),
        ("", "logging.basicConfig(level=logging.INFO)", 1),
        ("logging.basicConfig(level=logging.INFO)", "", 1),
        ("", "logging.getLogger('kiln').addHandler(logging.StreamHandler())", 1),
        ("logging.getLogger('kiln').setLevel(logging.ERROR)", "", 0),
    ],
)
def test_a_line_is_shown_once_whenever_the_program_sets_up_its_own_logging(machine, cache, before, after, lines):
    code = LOGGING.format(before=before, after=after)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    result = subprocess.run(
        [sys.executable, "-c", code, machine.driver, cache], env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("launch n128k512_gemm_bf16") == lines, result.stderr
