#!/usr/bin/env bash
# Runs on a machine with a GPU, over the folder `python` of a pack (gpu_pack.sh, then python_gpu_pack.sh): installs the wheel beside what is
# there, runs the tests of python/tests/torch_ops, the benchmark of a call's cost, and the example. Needs Python with torch and pytest; Triton
# and CuPy for their rows. Prints a short table; exits with 1 when something failed.
#
#   python_gpu.sh [RESULTS [PART...]]      RESULTS: a folder for what the parts print (default: python_results); PART: call_cost, example, tests
set -uo pipefail
pack=$(cd "$(dirname "$0")" && pwd)
results=$(realpath -m "${1:-python_results}")
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
mkdir -p "$results"
parts=" ${*:2} "
[ $# -gt 1 ] || parts=" call_cost example tests "
rows=() failed=0

row() { rows+=("$(printf '%-24s %s' "$1" "$2")"); }

# part NAME SUMMARY COMMAND...: SUMMARY says which lines of the output go into the table.
part() {
  local name=$1 summary=$2 code line
  [[ $parts == *" $name "* ]] || return
  printf '\n== %s\n' "$name"
  "${@:3}" 2>&1 | tee "$results/$name.log"
  code=${PIPESTATUS[0]}
  [ "$code" = 0 ] || failed=$((failed + 1))
  row "$name" "$([ "$code" = 0 ] && echo passed || echo "FAILED (exit $code)")"
  while IFS= read -r line; do row "" "$line"; done < <(grep -E "$summary" "$results/$name.log")
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || { echo "python_gpu: nvidia-smi shows no GPU here" >&2; exit 1; }
"$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check --target "$site" "$pack"/wheels/*.whl || exit 1
export PYTHONPATH=$site:$pack/bench PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Kernels that the pack was prebuilt with; what it lacks is compiled.
cache=$(mktemp -d -p "$site")
[ -d "$pack/../cache" ] && cp -r "$pack/../cache/." "$cache/"
export KILN_CACHE_DIR=$cache

cd "$pack" || exit 1
part call_cost '^(host cost|C\+\+|nanobind|tvm-ffi|kiln\.|plan|torch|Triton|CuPy|no rows)' "$python" bench/call_cost.py --json "$results/call_cost.json"
part example 'us a step|same bits' "$python" decode_step.py
# Most of a test's time is the host's, and one thread's (tests/conftest.py).
most=12 cores=$(nproc) side_by_side=()
"$python" -c 'import xdist' 2> /dev/null && side_by_side=(-n $((cores < most ? cores : most)))
part tests '^(FAILED|ERROR)|passed|failed' "$python" -m pytest -q -p no:cacheprovider --tb=short --show-capture=no -rs --durations=15 "${side_by_side[@]}" tests
printf '\n'
printf '%s\n' "${rows[@]}"
[ "$failed" = 0 ]
