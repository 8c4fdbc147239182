#!/usr/bin/env bash
# The stress programs in full, which ctest runs small: prints their figures, and fails when one of
# them is wrong. Takes minutes.
#
#   scripts/stress.sh [PRESET]     (default: release)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}

. scripts/environment.sh
cmake --preset "$preset" -DKILN_BUILD_TESTS=ON >/dev/null
cmake --build --preset "$preset" --target kiln_cold_start kiln_crash_loop kiln_many_compiles
cold_start=build/$preset/tests/stress/kiln_cold_start
"$cold_start" --processes 8 --kernels 50 --rounds 100
"$cold_start" --no-locks --processes 8 --kernels 10 --rounds 100
"$cold_start" --namespaces --processes 8 --kernels 10 --rounds 100 || [ $? = 77 ]
"build/$preset/tests/stress/kiln_crash_loop" --kills 500
"build/$preset/tests/stress/kiln_many_compiles" --kernels 500
