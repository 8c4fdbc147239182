#!/usr/bin/env bash
# Runs each fuzzer for a while and prints what came of it. Exits 1 when there is a finding; its input
# is then in build/fuzz/findings.
#
#   scripts/fuzz.sh SECONDS
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: scripts/fuzz.sh SECONDS}
. scripts/environment.sh
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target kiln_fuzzers

findings=build/fuzz/findings
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$findings"
bad=0

fuzz() {  # NAME CORPUS
  local name=$1 log=$scratch/$1.log code=0 before after executions rate
  mkdir -p "$scratch/$name"
  before=$(find "$findings" -type f | wc -l)
  build/fuzz/tests/fuzz/"$name" -max_total_time="$seconds" -print_final_stats=1 -timeout=10 \
    -rss_limit_mb=4096 -max_len=65536 -artifact_prefix="$findings/$name-" \
    "$scratch/$name" "tests/fuzz/corpus/$2" >"$log" 2>&1 || code=$?
  after=$(find "$findings" -type f | wc -l)
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  echo "$name: ${executions:-0} executions in $seconds s, ${rate:-0} per second, $((after - before)) findings"
  if [ "$code" != 0 ]; then
    tail -n 40 "$log" >&2
    bad=1
  fi
}

fuzz entry_fuzz entry
fuzz pack_fuzz pack
fuzz message_fuzz message
exit "$bad"
