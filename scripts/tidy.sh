#!/usr/bin/env bash
# Runs clang-tidy over the given sources, or over every source of the libraries and the command.
# Needs a configured build: BUILD=build/release by default.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build/release}
tidy=$(command -v clang-tidy-14 || command -v clang-tidy)

files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git ls-files -- 'base/*.cpp' 'cache/*.cpp' 'trait_registry/*.cpp' \
    'reference/*.cpp' 'runtime/*.cpp' 'c_api/*.cpp' 'tools/*.cpp')
fi
# GCC's spelling of some warnings is unknown to clang; that is not a finding.
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" "$tidy" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option
