#!/usr/bin/env bash
# Formats every C++ and CUDA file of the repository; with --check changes nothing, prints the
# difference and exits 1 if there is one.
set -euo pipefail
cd "$(dirname "$0")/.."
formatter=$(command -v clang-format-14 || command -v clang-format)

mapfile -t files < <(git ls-files -co --exclude-standard -- '*.hpp' '*.cpp' '*.h' '*.c' '*.cuh' '*.cu')
if [ "${1:-}" != --check ]; then
  "$formatter" -i "${files[@]}"
  exit 0
fi
bad=0
for file in "${files[@]}"; do
  "$formatter" "$file" | diff -u --label "$file" --label "$file (formatted)" "$file" - || bad=1
done
[ "$bad" = 0 ] || echo "format: not formatted as above; scripts/format.sh mends it" >&2
exit "$bad"
