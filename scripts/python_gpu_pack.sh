#!/usr/bin/env bash
# Adds to a folder made by gpu_pack.sh what the Python half of a GPU session needs: the wheel with its dependency, the tests, the
# benchmark with the module that it compares with, and the example. Nothing is fetched or built where it is used.
#
#   scripts/python_gpu_pack.sh DIR PYTHON      PYTHON: of the version that the machine with the GPU has, with nanobind, pip and headers
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:?usage: scripts/python_gpu_pack.sh DIR PYTHON} python=${2:?usage: scripts/python_gpu_pack.sh DIR PYTHON}
. scripts/environment.sh
to=$dir/python

# The wheel that scripts/python.sh tests, made by its own steps.
scripts/python.sh --collect-only -q | tail -n 3
cmake --preset release -DKILN_BUILD_PYTHON_BENCH=ON -DPython_EXECUTABLE="$python"
cmake --build --preset release --target kiln_prototype

rm -rf "$to"
mkdir -p "$to/wheels" "$to/bench"
cp build/wheel/kiln-*.whl "$to/wheels/"
"$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: -d "$to/wheels" "apache-tvm-ffi>=0.1.9,<0.2"
cp -r python/tests/torch_ops "$to/tests"
cp python/bench/*.py build/release/bench/python_call/kiln_prototype*.so "$to/bench/"
strip "$to"/bench/*.so
cp examples/python/*.py scripts/python_gpu.sh "$to/"
find "$to" -name __pycache__ -prune -exec rm -rf {} +
du -sh "$dir"
