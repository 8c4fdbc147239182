"""What a call costs the host, in one run: from C++, through this package, as a PyTorch operator, and what other ways to launch a kernel from
Python cost beside them.

    python call_cost.py [--json FILE]              on a GPU
    python call_cost.py --fake DRIVER              on the tests' driver, which only counts: shows that this runs, no more

Median over batches of asynchronous calls of n128k512_gemm_bf16, x [8, 512], and of row_argmax, x [1, 1048576], which is two kernels and has a
workspace. The rows of C++ and nanobind need the module kiln_prototype
(bench/python_call) on PYTHONPATH, those of Triton, CuPy and torch the packages; what is missing is said.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import kiln
from kiln import _engine, _producers, _spec

OP = "n128k512_gemm_bf16"
SHAPES = ((8, 512), (128, 512), (8, 128))
ROWS = (1, 1 << 20)
BATCH, BATCHES = 200, 31
# Above the call from C++; what a GPU must show.
LIMITS_US = {"kiln.{op}(x, w, out=out)": 3.0, "kiln.{op}(x, w)": 9.0, "torch.ops.kiln.{op}": 9.0}

Row = tuple[str, Callable[[], object]]


class Place:
    """Where the calls go: their tensors, and how to wait for them."""

    tensors: tuple[Any, ...]
    stream = 0
    driver = ""
    cache_root = ""

    def synchronize(self) -> None:
        pass


class Gpu(Place):
    def __init__(self) -> None:
        try:
            import torch
        except ImportError:
            raise SystemExit("call_cost: torch is not installed here, and it is what makes the tensors; --fake DRIVER shows that this runs") from None
        if not torch.cuda.is_available():
            raise SystemExit("call_cost: torch finds no GPU here; --fake DRIVER shows that this runs")
        self.tensors = tuple(torch.randn(shape, device="cuda").bfloat16() for shape in SHAPES)
        self.stream = torch.cuda.current_stream().cuda_stream
        self.synchronize = torch.cuda.synchronize

    def rows(self) -> list[Row]:
        return [
            *kiln_rows(self.tensors),
            *other_forms_rows(self.tensors),
            *operator_rows(self.tensors),
            *workspace_rows(),
            *triton_rows(self.tensors),
            *cupy_rows(self.tensors),
            *torch_rows(self.tensors),
        ]


class Fake(Place):
    """Addresses in the memory of no device, as the binding library's own tensors."""

    def __init__(self, driver: str, folder: str) -> None:
        control = ctypes.CDLL(driver)
        control.kiln_fake_enter(0)
        control.kiln_fake_set_recording(0)
        self.driver, self.cache_root = driver, folder
        kiln.set_default_engine(kiln.Engine(driver=driver, cache_root=folder))
        self.tensors = tuple(_spec.view((1 + place) << 24, "bf16", _spec.CUDA, 0, shape, None) for place, shape in enumerate(SHAPES))
        _producers.direct_types.add(type(self.tensors[0]))  # They go the way that torch's go.

    def rows(self) -> list[Row]:
        return kiln_rows(self.tensors)


def kiln_rows(tensors: tuple[Any, ...]) -> list[Row]:
    x, w, out = tensors
    function, launcher = getattr(kiln, OP), getattr(_engine.default_engine().launchers, OP)
    plan = kiln.plan(OP, x, w, out=out)
    return [
        ("tvm-ffi alone, by position", lambda: launcher(x, w, out)),
        ("kiln.{op}(x, w, out=out)", lambda: function(x, w, out=out)),
        ("plan.launch(x, w, out)", lambda: plan.launch(x, w, out)),
    ]


def other_forms_rows(tensors: tuple[Any, ...]) -> list[Row]:
    """Calls that leave something out, or ask for something beside."""
    import torch

    x, w, out = tensors
    function, plan, stream = getattr(kiln, OP), kiln.plan(OP, x, w), torch.cuda.current_stream()
    options = kiln.LaunchOptions(constants_ready=False)
    return [
        ("kiln.{op}(x, w)", lambda: function(x, w)),
        ("plan(x, w)", lambda: plan(x, w)),
        ('kiln.launch("{op}", x, w)', lambda: kiln.launch(OP, x, w)),
        ("kiln.{op}(x, w, out=out, stream=stream)", lambda: function(x, w, out=out, stream=stream)),
        ("kiln.{op}(x, w, options=options)", lambda: function(x, w, options=options)),
    ]


def workspace_rows() -> list[Row]:
    import torch

    rows, out = torch.randn(ROWS, device="cuda"), torch.empty(ROWS[:1], dtype=torch.int64, device="cuda")
    workspace = torch.empty(kiln.workspace_bytes("row_argmax", rows, out=out), dtype=torch.uint8, device="cuda")
    operator = torch.ops.kiln.row_argmax
    return [
        ("kiln.row_argmax(x, out=out)", lambda: kiln.row_argmax(rows, out=out)),
        ("kiln.row_argmax(x)", lambda: kiln.row_argmax(rows)),
        ("kiln.row_argmax(x, out=out, workspace=...)", lambda: kiln.row_argmax(rows, out=out, workspace=workspace)),
        ("torch.ops.kiln.row_argmax", lambda: operator(rows, out)),
        ("torch.ops.kiln.row_argmax.functional", lambda: operator.functional(rows)),
    ]


def operator_rows(tensors: tuple[Any, ...]) -> list[Row]:
    import torch

    import kiln.torch  # noqa: F401 (registers the operators)

    x, w, out = tensors
    packet = getattr(torch.ops.kiln, OP)
    default, functional = packet.default, packet.functional
    return [
        ("torch.ops.kiln.{op}", lambda: packet(x, w, out)),
        ("torch.ops.kiln.{op}.default", lambda: default(x, w, out)),
        ("torch.ops.kiln.{op}.functional", lambda: functional(x, w)),
    ]


def triton_rows(tensors: tuple[Any, ...]) -> list[Row]:
    if importlib.util.find_spec("triton") is None:
        return []
    import empty_triton

    return [("Triton, an empty kernel", lambda: empty_triton.launch(*tensors))]


def cupy_rows(tensors: tuple[Any, ...]) -> list[Row]:
    if importlib.util.find_spec("cupy") is None:
        return []
    import cupy
    import torch

    kernel = cupy.RawKernel('extern "C" __global__ void nothing(const void*, const void*, void*) {}', "nothing")
    arrays = tuple(cupy.from_dlpack(tensor.view(torch.int16)) for tensor in tensors)
    return [("CuPy RawKernel, an empty kernel", lambda: kernel((128,), (128,), arrays))]


def torch_rows(tensors: tuple[Any, ...]) -> list[Row]:
    import torch

    x, w, out = tensors
    other = torch.empty_like(out)
    return [
        ("torch F.linear(x, w)", lambda: torch.nn.functional.linear(x, w)),
        ("torch.mm(x, w.T, out=out)", lambda: torch.mm(x, w.T, out=out)),
        ("torch.add(a, b, out=out)", lambda: torch.add(other, other, out=out)),
    ]


def prototype_rows(place: Place) -> tuple[Callable[[], float] | None, list[Row]]:
    """A loop in C++, which times itself, and the calls through nanobind."""
    if importlib.util.find_spec("kiln_prototype") is None:
        return None, []
    # The module stands on the package's own library, which must be there before: it has no other way to find it.
    kiln.default_engine()
    import kiln_prototype

    caller = kiln_prototype.Caller(OP, place.driver, place.cache_root)
    x, w, out = place.tensors
    caller.launch(x, w, out, place.stream)
    return lambda: caller.loop(x, w, out, place.stream, BATCH), [("nanobind, stream given", lambda: caller.launch(x, w, out, place.stream))]


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter_ns()
    for _ in range(BATCH):
        call()
    return (time.perf_counter_ns() - start) / BATCH


def measure(place: Place) -> dict[str, float]:
    """Median nanoseconds by row. The rows take turns, so that all see the same machine."""
    loop, rows = prototype_rows(place)
    rows += place.rows()
    batches: dict[str, Callable[[], float]] = {} if loop is None else {"C++ engine.launch": loop}
    batches |= {name.format(op=OP): lambda call=call: timed(call) for name, call in rows}
    for _, call in rows:
        call()
    taken: dict[str, list[float]] = {name: [] for name in batches}
    for _ in range(BATCHES):
        for name, batch in batches.items():
            place.synchronize()
            taken[name].append(batch())
    place.synchronize()
    return {name: statistics.median(values) for name, values in taken.items()}


def missing() -> list[str]:
    return [name for name in ("kiln_prototype", "triton", "cupy", "torch") if importlib.util.find_spec(name) is None]


def report(medians: dict[str, float], fake: bool) -> bool:
    """Prints the table; whether the limits are kept, where they can be judged."""
    base = medians.get("C++ engine.launch")
    print(f"{'host cost of a call' + (', fake driver' if fake else ''):44} {'ns':>9} {'above C++':>10} {'ratio':>7}")
    for name, value in medians.items():
        above = "" if base is None else f"{value - base:10.0f} {value / base:7.2f}"
        print(f"{name:44} {value:9.0f} {above}")
    for name in missing():
        print(f"no rows of {name}: it is not installed here")
    if base is None or fake:
        return True
    kept = True
    for pattern, limit in LIMITS_US.items():
        above = (medians[pattern.format(op=OP)] - base) / 1000
        kept = kept and above <= limit
        print(f"{pattern.format(op=OP)}: {above:.2f} us above C++, at most {limit:.0f}: {'kept' if above <= limit else 'NOT KEPT'}")
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fake", metavar="DRIVER", default="", help="path of the tests' driver")
    parser.add_argument("--json", metavar="FILE", help="where to write the medians, in nanoseconds")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        medians = measure(Fake(args.fake, folder) if args.fake else Gpu())
        kiln.set_default_engine(None)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(medians, file, indent=1)
    return 0 if report(medians, bool(args.fake)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
