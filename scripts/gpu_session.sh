#!/usr/bin/env bash
# Runs on a machine with a GPU, over a folder made by gpu_pack.sh: GPU tests, memory checkers over
# the tests tagged [sanitize], `kiln run` of every op, `kiln bench`, and the device benchmarks. Needs
# no build tools. Prints a table, and writes results for `scripts/gpu_record.py write`; beside them
# bench.json and bench.svg.
#
#   gpu_session.sh [RESULTS] [--no-bench]     run in, or named by its path in, the packed folder
#   gpu_session.sh --bench-only [RESULTS]     the other half, which is no part of the results
set -uo pipefail
bench=yes checks=yes files=()
for argument in "$@"; do
  case $argument in
    --no-bench) bench=no ;;
    --bench-only) checks=no ;;
    *) files+=("$argument") ;;
  esac
done
results=$(realpath -m "${files[0]:-gpu_results.json}")
pack=$(cd "$(dirname "$0")" && pwd)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export KILN_CACHE_DIR=$pack/cache
# What the tests compile themselves.
[ ! -x "$pack/kiln-compile-worker" ] || export KILN_COMPILE_WORKER=$pack/kiln-compile-worker
passed=0 failed=0 rows=() checkers=()

row() { rows+=("$(printf '%-44s %s' "$1" "$2")"); }

# Catch2 ends with either "All tests passed (N assertions in M test cases)" or
# "test cases: M | P passed | F failed".
count_cases() {
  local log=$1 all good bad
  all=$(sed -nE 's/^All tests passed \(.* in ([0-9]+) test cases?\).*/\1/p' "$log" | tail -n 1)
  if [ -n "$all" ]; then
    good=$all bad=0
  else
    good=$(sed -nE 's/^test cases:.*[^0-9]([0-9]+) passed.*/\1/p' "$log" | tail -n 1)
    bad=$(sed -nE 's/^test cases:.*[^0-9]([0-9]+) failed.*/\1/p' "$log" | tail -n 1)
  fi
  echo "${good:-0} ${bad:-0}"
}

run_tests() {
  local program=$1 name code good bad
  name=$(basename "$program")
  "$program" 2>&1 | tee "$logs/$name"
  code=${PIPESTATUS[0]}
  read -r good bad < <(count_cases "$logs/$name")
  # A program that crashed, or that skipped itself, has failed here: there is meant to be a GPU.
  [ "$code" = 0 ] || [ "$bad" -gt 0 ] || bad=1
  passed=$((passed + good)) failed=$((failed + bad))
  row "$name" "$good passed, $bad failed"
}

# The tests that a program's checkers run, one name a line, in as many files as there are shards: LOGS/PROGRAM.N.names.
shards=3
split_tests() {  # PROGRAM
  local names shard
  names=$("$1" --list-test-names-only "[sanitize]" | sed 's/[][,\\]/\\&/g')  # As a test spec wants them.
  for ((shard = 0; shard < shards; ++shard)); do
    awk -v shard="$shard" -v shards="$shards" 'NR % shards == shard' <<< "$names" > "$logs/$(basename "$1").$shard.names"
  done
}

# Several at a time, since most of their time is the host's. Each leaves its output and exit code.
start_checker() {  # TOOL PROGRAM LOG SHARD
  # Errors of driver calls are the tests' to judge: some ask on purpose for what is not there.
  compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 86 \
    "$2" --input-file "$logs/$(basename "$2").$4.names" > "$3.$4" 2>&1
  echo $? > "$3.$4.code"
}

# A checker that cannot work on this machine is reported as not run, which is neither pass nor fail.
judge_checker() {  # TOOL PROGRAM LOG
  local name outcome=clean code shard
  name="$1 $(basename "$2")"
  for ((shard = 0; shard < shards; ++shard)); do
    if [ ! -e "$3.$shard.code" ]; then
      outcome="not run: no compute-sanitizer here"
      break
    fi
    code=$(cat "$3.$shard.code")
    tail -n 5 "$3.$shard"
    if grep -qi 'device not supported' "$3.$shard"; then
      outcome="not run: the device is not supported"
      break
    elif [ "$code" != 0 ]; then
      outcome="FAILED (exit $code)"
      failed=$((failed + 1))
      break
    elif ! grep -q 'All tests passed' "$3.$shard" || grep -q 'Invalid Filter' "$3.$shard"; then
      outcome="FAILED: not every test passed"
      failed=$((failed + 1))
      break
    fi
  done
  checkers+=("$name: $outcome")
  row "$name" "$outcome"
}

tools=(memcheck racecheck initcheck synccheck)

start_checkers() {
  command -v compute-sanitizer >/dev/null || return
  for program in "$pack"/tests/*; do split_tests "$program"; done
  for tool in "${tools[@]}"; do
    for program in "$pack"/tests/*; do
      for ((shard = 0; shard < shards; ++shard)); do
        start_checker "$tool" "$program" "$logs/$tool.$(basename "$program")" "$shard" &
      done
    done
  done
}

judge_checkers() {
  wait
  for tool in "${tools[@]}"; do
    for program in "$pack"/tests/*; do
      judge_checker "$tool" "$program" "$logs/$tool.$(basename "$program")"
    done
  done
}

start_op() {  # LOG ARGUMENTS...
  "$pack/kiln" run "${@:2}" > "$1" 2>&1
  echo $? > "$1.code"
}

judge_op() {  # LOG ARGUMENTS...
  local outcome=agrees
  cat "$1"
  [ "$(cat "$1.code")" = 0 ] || { outcome=FAILED; failed=$((failed + 1)); }
  row "kiln run ${*:2}" "$outcome"
}

# Names of all ops. What the outermost objects of the list hold is indented by four.
op_names() { "$pack/kiln" ops --json | sed -nE 's/^    "name": "([^"]+)",?$/\1/p'; }

run_ops() {
  local ops op pdl m calls=() i
  mapfile -t ops < <(op_names)
  if [ ${#ops[@]} -eq 0 ]; then
    failed=$((failed + 1))
    row "kiln ops" "FAILED: lists no op"
  fi
  for op in "${ops[@]}"; do
    for pdl in on off; do
      for m in 1 8 33; do calls+=("$op --m $m --pdl $pdl"); done
    done
  done
  # shellcheck disable=SC2086  # A call is several words.
  for i in "${!calls[@]}"; do
    start_op "$logs/run.$i" ${calls[$i]} &
    [ $(((i + 1) % 8)) -ne 0 ] || wait
  done
  wait
  # shellcheck disable=SC2086
  for i in "${!calls[@]}"; do judge_op "$logs/run.$i" ${calls[$i]}; done
}

# Counts like any other program: the exit status, never a time.
run_bench() {
  local name=$1 outcome=ran
  printf '\n== %s\n' "$name"
  "${@:2}" || { outcome="FAILED (exit $?)"; failed=$((failed + 1)); }
  row "$name" "$outcome"
}

json_strings() {  # One JSON list of the arguments; none of ours holds a quote or a backslash.
  local separator='' text
  printf '['
  for text in "$@"; do
    printf '%s"%s"' "$separator" "$text"
    separator=', '
  done
  printf ']'
}

IFS=, read -r device driver < <(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -n 1)
[ -n "${device:-}" ] || { echo "gpu_session: nvidia-smi shows no GPU here" >&2; exit 1; }
"$pack/kiln" doctor

run_checks() {
  start_checkers
  for program in "$pack"/tests/*; do run_tests "$program"; done
  judge_checkers
  run_ops
}

run_benches() {
  local folder
  folder=$(dirname "$results")
  run_bench "kiln bench" "$pack/kiln" bench --peers "$pack/peer_h200.md" --save "$folder/bench.json" --plot "$folder/bench.svg"
  for program in "$pack"/bench/*; do
    [ -x "$program" ] && run_bench "$(basename "$program")" "$program"
  done
}

[ "$checks" = no ] || run_checks
[ "$bench" = no ] || run_benches
if [ "$checks" = no ]; then
  printf '\n%s on driver %s\n' "$device" "${driver# }"
  printf '%s\n' "${rows[@]}"
  [ "$failed" = 0 ]
  exit
fi

{
  printf '{"device": "%s", "driver": "%s", "date": "%s",\n' "$device" "${driver# }" "$(date -u +%F)"
  printf ' "tests_passed": %d, "tests_failed": %d,\n' "$passed" "$failed"
  printf ' "sanitizers": %s,\n' "$(json_strings "${checkers[@]}")"
  printf ' "digests": %s}\n' "$(cat "$pack/digests.json")"
} > "$results"
printf '\n%s on driver %s\n' "$device" "${driver# }"
printf '%s\n' "${rows[@]}"
cat "$results"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
