#!/usr/bin/env bash
# Puts what a GPU session needs into a folder that can be copied to a machine with a GPU and no build
# dependencies: programs, a cache prebuilt for its architecture, the peer table, and the digests of the
# tree they were built from.
#
#   scripts/gpu_pack.sh DIR [ARCH]      (default: sm_90a)
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:?usage: scripts/gpu_pack.sh DIR [ARCH]}
arch=${2:-sm_90a}

scripts/setup.sh
. scripts/environment.sh
cmake --preset release -DKILN_BUILD_TESTS=ON -DKILN_BUILD_BENCH=ON
cmake --build --preset release

rm -rf "$dir"
mkdir -p "$dir/tests" "$dir/bench"
scripts/gpu_record.py digests > "$dir/digests.json"
cp scripts/gpu_session.sh build/release/tools/kiln docs/peer_h200.md "$dir/"
find build/release/tests/gpu -maxdepth 1 -type f -executable -exec cp -t "$dir/tests" {} +
find build/release/bench -type f -executable \( -name '*device*' -o -name '*launch*' -o -name '*serving*' \) -exec cp -t "$dir/bench" {} +
# Run by hand: it prints kernels per second.
cp build/release/examples/kiln_example_engine "$dir/"
# What the tests compile themselves; needs NVRTC there, as does the benchmark, which is run by hand where there are many cores.
cp build/release/libexec/kiln/kiln-compile-worker build/release/bench/prebuild_jobs/kiln_bench_prebuild_jobs "$dir/"
"$dir/kiln" prebuild --arch "$arch" --cache "$dir/cache"
strip "$dir"/kiln* "$dir"/tests/* "$dir"/bench/*
du -sh "$dir"
