"""An op of one's own: the same as tests/c_api/axpy.c registers."""

from __future__ import annotations

import inspect
import re

import pytest
from machine import Array

import kiln
from kiln import Kernel, Param, ScalarArg, TensorArg, TensorSpec, _calls, _short

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


def make_quick(monkeypatch, cls):
    """Has values of a type take the short way."""
    monkeypatch.setattr(_calls, "direct_types", _calls.direct_types | {cls})
    monkeypatch.setattr(_short, "direct_types", _calls.direct_types)


def test_it_goes_the_short_way_with_tensors_of_quick_types(machine, engine, monkeypatch):
    axpy = register(engine)
    x, y, out = (Array((1000,), "f32").view() for _ in range(3))
    make_quick(monkeypatch, type(x))
    assert axpy(2.0, x, y, out=out) is out
    assert "py_axpy" in vars(engine.launchers)
    assert len(machine.launches()) == 1


@pytest.mark.parametrize("name", ["__init__", "__dict__", "__engine__", "_Launchers__engine", "clear", "launch"])
def test_any_name_will_do(machine, engine, monkeypatch, name):
    args = [TensorArg("x", "f32", "n", access="read_write")]
    kernels = [Kernel("k", "k.cu", "k<1>", params=["x"], grid=[1], block=[1])]
    named = engine.register_op(name, args=args, kernels=kernels, sources={"k.cu": "template <int> __global__ void k(float* x) {}"})
    x = Array((8,), "f32").view()
    make_quick(monkeypatch, type(x))
    for _ in range(2):
        named(x)
        kiln.launch(name, x)
    assert len(machine.launches()) == 4


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


def kernel(**changes):
    described = {"params": ["a", "x", "y", "out"], "grid": [1], "block": [1]}
    return Kernel("k", "axpy.cu", "k", **(described | changes))


X = TensorArg("x", "f32", "n")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"args": 3}, "args must be a list of kiln.TensorArg and kiln.ScalarArg, found 3"),
        ({"args": X}, "args must be a list of .*, found TensorArg"),
        ({"args": [3]}, "args must be a list of .*, found 3 in it"),
        ({"args": [X, X]}, '2 arguments are called "x"; give each a name of its own'),
        ({"args": [TensorArg(3, "f32", "n")]}, "an argument's name must be a str, found 3"),
        ({"args": [TensorArg("", "f32", "n")]}, "an argument's name must be a name, found ''"),
        ({"args": [ScalarArg("a", "f64")]}, "type must be .*\"f32\".*, found 'f64'"),
        ({"args": [TensorArg("x", "f32", ("n",))]}, "shape must be a str, found \\('n',\\)"),
        ({"args": [TensorArg("x", "f32", "n", access="w")]}, "access must be .*\"write\".*, found 'w'"),
        ({"args": [TensorArg("x", "f32", "n", alignment="16")]}, "alignment must be a whole number, .*, found '16'"),
        ({"args": [TensorArg("x", "f32", "n", constant="no")]}, "constant must be True or False, found 'no'"),
        ({"args": [TensorArg("x", "f32", "n", summary="\ud800")]}, "summary must be text that UTF-8 can hold"),
        ({"args": [ScalarArg("stream", "f32")]}, 'argument "stream": every function takes stream, .* another name'),
        ({"kernels": 3}, "kernels must be a list of kiln.Kernel, found 3"),
        ({"kernels": [3]}, "kernels must be a list of kiln.Kernel, found 3 in it"),
        ({"kernels": kernel(grid=["1"] * 4)}, "grid must be of at most three axes, found"),
        ({"kernels": kernel(grid="1")}, "grid must be a list of .*, found '1'"),
        ({"kernels": kernel(block=[1.5])}, "block must be a list of .*, found 1.5 in it"),
        ({"kernels": kernel(params=[3])}, "params must be a list of .*, found 3 in it"),
        ({"kernels": kernel(params=["z"])}, '"z", which is no argument; the arguments are a, x, y, out; see kiln.Param'),
        ({"kernels": kernel(params=[Param(99)])}, "a Param must be one that its own functions made"),
        ({"kernels": kernel(dynamic_shared_bytes=1.5)}, "dynamic_shared_bytes must be a whole number or an expression"),
        ({"kernels": kernel(cooperative=1)}, "cooperative must be True or False, found 1"),
        ({"sources": [SOURCE]}, "sources must be a dict"),
        ({"sources": {"axpy.cu": 3}}, 'source "axpy.cu": its text must be a str, found 3'),
        ({"sources": {"axpy.cu": None}}, "without a text it is a file of source_directory, which was not passed"),
        ({"options": "-G"}, "options must be a list of str, found '-G'"),
        ({"options": [3]}, "options must be a list of str, found 3 in it"),
        ({"summary": 3}, "summary must be a str, found 3"),
        ({"workspace_bytes": 1.5}, 'workspace_bytes must be a whole number or an expression such as "4 \\* n", found 1.5'),
        ({"min_compute_capability": "90"}, "min_compute_capability must be a whole number, .*, found '90'"),
        ({"pdl": "yes"}, "pdl must be True or False, found 'yes'"),
    ],
)
def test_what_is_no_part_of_a_description_is_named_with_what_was_found(engine, changed, said):
    with pytest.raises(kiln.InvalidArgumentError, match=f'^op "py_axpy".*{said}'):
        register(engine, **changed)
    assert "py_axpy" not in engine.op_names()


@pytest.mark.parametrize("name", [3, b"axpy", "a\0b", "\ud800"])
def test_a_name_that_is_none_is_shown(engine, name):
    with pytest.raises(kiln.InvalidArgumentError, match="name must be .*, found") as caught:
        engine.register_op(name, args=[X], kernels=[], sources={})
    assert str(caught.value).isprintable()


def test_a_description_may_come_from_generators(machine, engine):
    axpy = register(
        engine,
        args=(arg for arg in [ScalarArg("a", "f32"), X, TensorArg("y", "f32", "n"), TensorArg("out", "f32", "n", access="write")]),
        kernels=(
            Kernel(
                "axpy",
                "axpy.cu",
                "axpy<256>",
                params=iter(["a", "x", "y", "out", Param.expression("n")]),
                grid=iter([1]),
                block=iter([256]),
            )
            for _ in range(1)
        ),
    )
    axpy(2.0, *(Array((8,), "f32") for _ in range(2)), out=Array((8,), "f32"))
    assert machine.launches()[0].block == (256, 1, 1)


def deriving(engine, extent, symbol="n"):
    """An op whose output has this extent."""
    name = f"py_deriving_{len(engine.op_names())}"
    args = [TensorArg("x", "f32", f"{symbol}, 4"), TensorArg("y", "f32", extent, access="write")]
    kernels = [Kernel("k", "k.cu", "k<1>", params=["x", "y"], grid=[1], block=[1])]
    engine.register_op(name, args=args, kernels=kernels, sources={"k.cu": "template <int> __global__ void k(const float* x, float* y) {}"})
    return name


def rows(count):
    return TensorSpec((count, 4), "f32")


@pytest.mark.parametrize(
    ("extent", "count", "said"),
    [
        ("n - 4", 2, "n - 4 is -2, where n is 2"),
        ("-n", 8, "-n is -8, where n is 8"),
        ("8 / n", 0, "8 / n divides by zero, where n is 0"),
        ("ceil_div(8, n)", 0, "ceil_div\\(8, n\\) divides by zero, where n is 0"),
        ("n % (n - 8)", 8, "divides by zero, where n is 8"),
        ("n * n * n * n", 1 << 20, "is 1208925819614629174706176, where n is 1048576"),
        ("n * n, n * n", 1 << 20, "shape is \\(1099511627776, 1099511627776\\), which is more elements than a tensor can have"),
    ],
)
def test_shapes_that_give_an_output_none_are_answered_and_not_raised(engine, extent, count, said):
    name = deriving(engine, extent)
    assert not engine.can_use(name, rows(count))
    assert re.search(f'^{name}: argument "y": .*{said}', engine.why_not(name, rows(count)))
    for ask in (engine.plan, engine.workspace_bytes, engine.prefetch, engine.launch):
        with pytest.raises(kiln.InvalidArgumentError, match=f'^{name}: argument "y": .*{said}'):
            ask(name, rows(count))


@pytest.mark.parametrize(
    ("extent", "count", "value"),
    [("(n - 9) / 2 + 8", 4, 6), ("(n - 9) % 2 + 8", 4, 7), ("ceil_div(n - 9, 2) + 8", 4, 6), ("max(n, 07) * 2", 3, 14), ("n - -2", 3, 5)],
)
def test_what_is_worked_out_is_what_the_library_works_out(engine, extent, count, value):
    name = deriving(engine, extent)
    assert engine.why_not(name, rows(count)) == ""
    assert engine.why_not(name, rows(count), y=TensorSpec((value,), "f32")) == ""
    assert f"= {value}, found [{value + 1}]" in engine.why_not(name, rows(count), y=TensorSpec((value + 1,), "f32"))


def test_a_spec_of_what_no_tensor_can_be_is_refused_when_it_is_made():
    for shape in ((1 << 31, 1 << 31), (0, 1 << 61, 4), (1 << 62,)):
        with pytest.raises(kiln.InvalidArgumentError, match="^TensorSpec: shape is "):
            TensorSpec(shape, "f32")


@pytest.mark.parametrize("symbol", ["class", "None", "ceil4", "_"])
def test_a_symbol_may_be_called_what_python_keeps_for_itself(engine, symbol):
    assert engine.why_not(deriving(engine, f"{symbol} + 1", symbol), rows(3)) == ""
