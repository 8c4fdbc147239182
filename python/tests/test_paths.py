"""Paths, which need be no text."""

from __future__ import annotations

import logging
import os

import pytest
from machine import Array
from test_own_op import SOURCE, register

import kiln

GEMM = "n128k512_gemm_bf16"
ODD = b"caf\xe9 \xff"  # No UTF-8.


@pytest.fixture
def odd(tmp_path):
    """A folder whose name is no UTF-8, as bytes."""
    folder = os.fsencode(tmp_path) + b"/" + ODD
    os.mkdir(folder)
    return folder


def arrays():
    return Array((3, 512), "bf16"), Array((128, 512), "bf16"), Array((3, 128), "bf16")


@pytest.mark.parametrize("form", [bytes, os.fsdecode], ids=["bytes", "str"])
def test_a_cache_may_be_called_anything(machine, odd, form):
    for hits in (0, 1):
        with kiln.Engine(driver=machine.driver, cache_root=form(odd)) as engine:
            x, w, out = arrays()
            engine.launch(GEMM, x, w, out=out)
            assert engine.cache_layers() == [(os.fsdecode(odd), hits)]
            assert engine.stats()["cache_publishes"] == 1 - hits
    assert os.listdir(odd) == [b"v1"]


def test_a_cache_that_the_environment_names_may_be_called_anything(machine, odd, monkeypatch):
    monkeypatch.setenv("KILN_CACHE_DIR", os.fsdecode(odd))
    with kiln.Engine(driver=machine.driver) as engine:
        assert engine.cache_layers() == [(os.fsdecode(odd), 0)]


def test_so_may_every_other_path(machine, odd):
    record = odd + b"/record"
    source = odd + b"/axpy.cu"
    with open(source, "w") as file:
        file.write(SOURCE)
    os.symlink(os.fsencode(machine.driver), odd + b"/libcuda.so.1")
    with kiln.Engine(driver=odd + b"/libcuda.so.1", cache_root=odd + b"/cache", record=record, trace=odd + b"/trace") as engine:
        axpy = register(engine, sources={"axpy.cu": None}, source_directory=odd)
        x, y, out = (Array((8,), "f32") for _ in range(3))
        axpy(2.0, x, y, out=out)
        engine.launch(GEMM, *arrays()[:2], out=arrays()[2])
    assert {b"cache", b"record", b"trace"} < set(os.listdir(odd))
    with kiln.Engine(driver=machine.driver, cache_root=odd + b"/other", layers=[odd + b"/cache"], jit="forbid") as engine:
        register(engine)
        assert engine.warmup(manifest=record).prepared == 2
        assert [path for path, _ in engine.cache_layers()] == [os.fsdecode(odd + b"/other"), os.fsdecode(odd + b"/cache")]


def test_messages_about_such_a_path_are_text(machine, odd, caplog):
    nowhere = odd + b"/nothing"
    for option, what in (("driver", kiln.DriverUnavailableError), ("nvrtc", kiln.CompilerUnavailableError)):
        with (
            kiln.Engine(**{"driver": machine.driver, "cache_root": odd, option: nowhere}) as engine,
            pytest.raises(what, match="caf. ./nothing"),
        ):
            engine.plan(GEMM, kiln.TensorSpec((3, 512), "bf16"), kiln.TensorSpec((128, 512), "bf16"))
    with kiln.Engine(driver=machine.driver, cache_root=odd) as engine, pytest.raises(kiln.FileError, match="caf. ./nothing"):
        engine.warmup(manifest=nowhere)
    with caplog.at_level(logging.WARNING, logger="kiln"), kiln.Engine(driver=machine.driver, cache_root=b"/proc/" + ODD) as engine:
        engine.plan(GEMM, kiln.TensorSpec((3, 512), "bf16"), kiln.TensorSpec((128, 512), "bf16"))
    assert "cannot create /proc/caf" in caplog.text


@pytest.mark.parametrize("option", ["cache_root", "nvrtc", "driver", "compile_worker", "record", "trace"])
def test_what_is_no_path_is_refused_by_its_name(option):
    for wrong, said in (
        (3, "must be a path .*, found 3"),
        ("a\0b", "no file's name has a NUL"),
        (b"a\0b", "has a NUL"),
        ("\ud800", "name's bytes"),
    ):
        with pytest.raises(kiln.InvalidArgumentError, match=f"^{option} .*{said}"):
            kiln.Engine(**{option: wrong})


def test_so_is_what_is_no_path_among_several_and_beside_engines(engine):
    wrong = {
        "^each of layers is .*NUL": lambda: kiln.Engine(layers=["a\0b"]),
        "^each of trusted_keys must be a path": lambda: kiln.Engine(trusted_keys=[3]),
        "^layers is b'/a'; it must be a list": lambda: kiln.Engine(layers=b"/a"),
        "^manifest must be a path": lambda: kiln.warmup(manifest=3),
        "^source_directory must be a path": lambda: register(engine, source_directory=3),
    }
    for said, call in wrong.items():
        with pytest.raises(kiln.InvalidArgumentError, match=said):
            call()


@pytest.mark.parametrize("name", ["\udcff", "rmsnorm\0"])
def test_a_name_that_is_no_text_names_nothing(engine, name):
    with pytest.raises(kiln.UnknownOpError, match=r"no op is named .*\\"):
        kiln.can_use(name)
    for call in (lambda: kiln.prebuild([name]), lambda: kiln.prebuild(["sm_90a"], ops=[name]), lambda: kiln.warmup(ops=[name])):
        with pytest.raises(kiln.InvalidArgumentError, match="which names nothing"):
            call()
