#!/usr/bin/env bash
# From a fresh clone to Kiln's main job: builds, prebuilds both GEMMs for two architectures, shows
# that a second run compiles nothing, and on a machine with a GPU launches both against the reference.
#
#   scripts/demo.sh [CACHE_DIR]     (default: build/demo-cache, emptied first)
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${1:-$PWD/build/demo-cache}

scripts/setup.sh
. scripts/environment.sh
cmake --preset release -DKILN_BUILD_TESTS=OFF -DKILN_BUILD_BENCH=OFF
cmake --build --preset release --target kiln_cli
kiln=build/release/tools/kiln
[ $# -gt 0 ] || rm -rf "$cache"

say() { printf '\n== %s\n' "$*"; }
say "kiln prebuild --arch sm_90a,sm_100a --op '*_gemm_bf16' --cache $cache"
"$kiln" prebuild --arch sm_90a,sm_100a --op '*_gemm_bf16' --cache "$cache"
say "what it made"
"$kiln" cache stat --cache "$cache"
say "the same again: every kernel comes from the cache"
"$kiln" prebuild --arch sm_90a,sm_100a --op '*_gemm_bf16' --cache "$cache"

export KILN_CACHE_DIR=$cache
say "what this machine has (without a GPU, the ops are looked at for the newest architecture that can be compiled here)"
"$kiln" doctor || true
if [ -e /dev/nvidiactl ] || command -v nvidia-smi >/dev/null; then
  for op in n128k512_gemm_bf16 n32k5120_gemm_bf16; do
    say "kiln run $op --m 8"
    "$kiln" run "$op" --m 8
  done
else
  say "no GPU here, so nothing was launched; on a machine with one this goes on with 'kiln run'"
fi
