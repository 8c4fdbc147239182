#!/usr/bin/env bash
# From a fresh clone to passing tests: installs what is missing, builds everything, runs every test.
# GPU tests skip themselves, saying so, where there is no GPU.
#
#   scripts/test.sh [PRESET [CTEST_ARGUMENT...]]     (default: release)
#   KILN_STRESS=full scripts/test.sh ...             then also scripts/stress.sh
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true

scripts/setup.sh
. scripts/environment.sh
scripts/fetch_test_nvrtc.sh
cmake --preset "$preset" -DKILN_BUILD_TESTS=ON -DKILN_BUILD_BENCH=ON
cmake --build --preset "$preset"
ctest --preset "$preset" -j "$(nproc)" "$@"
[ "${KILN_STRESS:-}" != full ] || scripts/stress.sh "$preset"
