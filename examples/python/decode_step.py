"""One decode step of four ops, as an engine runs it: eagerly, compiled by torch.compile, and either of these replayed from a CUDA graph.

    python decode_step.py [ROWS]         on a GPU of compute capability 9.0 or newer, with torch

Prints microseconds a step for each, and checks that all give the same bits. A step of so few and short kernels is the host's time, and entering
compiled code takes more of that than there is to win by fusing; TORCH_LOGS=output_code shows what is called there. Graphs do without the host.
"""

import statistics
import sys
import time

try:
    import torch
except ImportError:
    print("decode_step: torch is not installed here, and it is what makes the tensors: pip install torch", file=sys.stderr)
    sys.exit(77)

import kiln
import kiln.torch  # Registers torch.ops.kiln.

HIDDEN, WIDTH, VOCABULARY = 5120, 32, 129_280
SKIPPED = 77  # As a test says that it could not run.
STEPS, ROUNDS = 100, 9


class Model:
    """What does not change from step to step."""

    def __init__(self):
        self.norm = random(HIDDEN)
        self.down = random(WIDTH, HIDDEN)
        self.vocabulary = random(WIDTH, VOCABULARY)


def skip(reason):
    print(f"decode_step: {reason}", file=sys.stderr)
    sys.exit(SKIPPED)


def random(*shape):
    return (torch.randn(shape, device="cuda") / shape[-1] ** 0.5).bfloat16()


def step(model, streams, weights, table, positions, heads):
    """From four residual streams to the next tokens, and the heads of the queries turned in place."""
    hidden = torch.ops.kiln.hc_combine_norm.functional(streams, weights, model.norm, 1e-6)
    narrow = torch.ops.kiln.n32k5120_gemm_bf16.functional(hidden, model.down)
    torch.ops.kiln.rope_inplace(heads, table, positions)
    logits = (narrow @ model.vocabulary).float()
    return torch.ops.kiln.row_argmax.functional(logits), narrow


def make_inputs(rows):
    angles = torch.rand(4096, 32, device="cuda") * 6.28
    return {
        "streams": random(rows, 4 * HIDDEN),
        "weights": torch.rand(rows, 4, device="cuda"),
        "table": torch.polar(torch.ones_like(angles), angles),
        "positions": torch.arange(rows, device="cuda"),
        "heads": random(rows, 16, 512),
    }


def captured(run):
    """The step as a graph, after a first run that loads what is needed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = run()

    def replay():
        graph.replay()
        return results

    return replay


def microseconds(run):
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(STEPS):
            run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / STEPS * 1e6)
    return statistics.median(times)


def main():
    if not torch.cuda.is_available():
        skip("this example needs a GPU, and torch finds none here")
    if torch.cuda.get_device_capability() < (9, 0):
        skip(f"this example needs compute capability 9.0 or newer, and {torch.cuda.get_device_name()} has less")
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    model, inputs = Model(), make_inputs(rows)
    first_heads = inputs["heads"].clone()
    compiled_step = torch.compile(step, fullgraph=True)

    ways = {
        "eager": lambda: step(model, **inputs),
        "compiled": lambda: compiled_step(model, **inputs),
    }
    for run in ways.values():
        run()  # Compiles.
    ways |= {f"{name}, as a CUDA graph": captured(run) for name, run in ways.items()}

    seen = {}
    print(f"{rows} rows on {torch.cuda.get_device_name()}, kiln {kiln.__version__}")
    for name, run in ways.items():
        inputs["heads"].copy_(first_heads)
        tokens, narrow = run()
        torch.cuda.synchronize()
        seen[name] = (tokens.clone(), narrow.clone(), inputs["heads"].clone())
        print(f"{name:25} {microseconds(run):8.1f} us a step")
    for name, results in seen.items():
        for mine, eager in zip(results, seen["eager"]):
            if not torch.equal(mine, eager):
                sys.exit(f"{name} gives other results than eager")
    print(f"all {len(seen)} give the same bits")


if __name__ == "__main__":
    main()
