"""An op of one's own: the same as tests/c_api/axpy.c registers."""

from __future__ import annotations

import inspect

import pytest
from machine import Array

import kiln
from kiln import Kernel, Param, ScalarArg, TensorArg, _calls, _short

SOURCE = """
template <int BLOCK>
__global__ void axpy(float a, const float* x, const float* y, float* out, long long n) {
  const long long i = blockIdx.x * static_cast<long long>(BLOCK) + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}
"""


def register(engine: kiln.Engine, **changes):
    described = {
        "args": [
            ScalarArg("a", "f32"),
            TensorArg("x", "f32", "n"),
            TensorArg("y", "f32", "n"),
            TensorArg("out", "f32", "n", access="write"),
        ],
        "kernels": [
            Kernel(
                "axpy", "axpy.cu", "axpy<256>", params=["a", "x", "y", "out", Param.expression("n")], grid=["ceil_div(n, 256)"], block=[256]
            )
        ],
        "sources": {"axpy.cu": SOURCE},
        "summary": "out = a * x + y",
    }
    return engine.register_op("py_axpy", **(described | changes))


def test_an_op_is_registered_compiled_and_launched(machine, engine):
    axpy = register(engine)
    assert "py_axpy" in engine.op_names()
    x, y, out = (Array((1000,), "f32") for _ in range(3))
    assert axpy(2.0, x, y, out=out) is out
    (launch,) = machine.launches()
    assert "axpy" in launch.symbol
    assert (launch.grid[0], launch.block[0]) == (4, 256)
    assert kiln.launch("py_axpy", 2, x, y, out=out) is out
    with pytest.raises(kiln.DuplicateOpError, match="py_axpy"):
        register(engine)


def test_its_function_says_what_it_takes(engine):
    axpy = register(engine)
    shown = "(a: 'float', x: 'Any', y: 'Any', *, out: 'Any' = None, stream=None, options=None, workspace=None)"
    assert str(inspect.signature(axpy)) == shown
    for said in ("out = a * x + y.", "x: f32 [n], contiguous", "out: f32 [n], contiguous", "made when left out", "source axpy.cu"):
        assert said in axpy.__doc__
    odd = [ScalarArg("class", "f32"), TensorArg("x", "f32", "n", access="read_write")]
    kernel = Kernel("axpy", "axpy.cu", "axpy<256>", params=["class", "x", "x", "x", Param.expression("n")], grid=[1], block=[256])
    assert engine.register_op("py_odd", args=odd, kernels=[kernel], sources={"axpy.cu": SOURCE}).__doc__


def test_it_goes_the_short_way_with_tensors_of_quick_types(machine, engine, monkeypatch):
    axpy = register(engine)
    x, y, out = (Array((1000,), "f32").view() for _ in range(3))
    monkeypatch.setattr(_calls, "direct_types", _calls.direct_types | {type(x)})
    monkeypatch.setattr(_short, "direct_types", _calls.direct_types)
    assert axpy(2.0, x, y, out=out) is out
    assert "py_axpy" in vars(engine.launchers)
    assert len(machine.launches()) == 1


def test_sources_may_be_files(machine, engine, tmp_path):
    (tmp_path / "axpy.cu").write_text('#include "index.h"\n' + SOURCE)
    (tmp_path / "index.h").write_text("// nothing\n")
    axpy = register(engine, sources={"axpy.cu": None}, source_directory=tmp_path)
    axpy(2.0, *(Array((1000,), "f32") for _ in range(2)), out=Array((1000,), "f32"))
    assert machine.launches()


def test_a_source_file_that_is_not_there_is_named(machine, engine, tmp_path):
    with pytest.raises(kiln.FileError, match="axpy.cu"):
        register(engine, sources={"axpy.cu": None}, source_directory=tmp_path)


def test_what_contradicts_itself_is_refused(machine, engine):
    with pytest.raises(ValueError, match='called "z"'):
        register(engine, kernels=[Kernel("axpy", "axpy.cu", "axpy<256>", params=["z"], grid=["1"], block=["1"])])
    with pytest.raises(kiln.InvalidArgumentError, match="py_axpy"):
        register(engine, sources={"other.cu": SOURCE})
    assert "py_axpy" not in engine.op_names()


def test_a_kernel_that_does_not_compile_shows_the_compilers_log(machine, engine):
    broken = register(engine, sources={"axpy.cu": SOURCE.replace("float a", "flout a")})
    x, y, out = (Array((8,), "f32") for _ in range(3))
    with pytest.raises(kiln.CompileFailedError, match="flout"):
        broken(2.0, x, y, out=out)


def test_a_shape_with_commas_in_an_expression_is_read():
    from kiln._own_op import _axes

    assert _axes("m, max(m, 2), 512") == ("m", "max(m, 2)", 512)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"args": [3]}, "args are"),
        ({"args": [kiln.ScalarArg("a", "f64")]}, "f64"),
        ({"args": [kiln.TensorArg("x", "f32", ("n",))]}, "shape"),
        ({"args": [kiln.TensorArg("x", "f32", "n", access="w")]}, "access"),
        ({"args": [kiln.ScalarArg("stream", "f32")]}, "stream"),
        ({"kernels": [3]}, "kernels are"),
        ({"kernels": kiln.Kernel("k", "axpy.cu", "k", params=[], grid=["1"] * 4, block=[1])}, "at most three"),
        ({"kernels": kiln.Kernel("k", "axpy.cu", "k", params=[], grid="1", block=[1])}, "at most three"),
        ({"kernels": kiln.Kernel("k", "axpy.cu", "k", params=[3], grid=[1], block=[1])}, "params are"),
        ({"options": "-G"}, "options"),
    ],
)
def test_what_is_no_part_of_a_description_is_named(machine, engine, changed, said):
    with pytest.raises(kiln.InvalidArgumentError, match=f"axpy: .*{said}"):
        register(engine, **changed)
