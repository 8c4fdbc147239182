#!/usr/bin/env bash
# Runs on a machine with a GPU, over a folder made by gpu_pack.sh: GPU tests, memory checkers over
# the tests tagged [sanitize], `kiln run` of every op, `kiln bench`, and the device benchmarks. Needs
# no build tools. Prints a table, and writes results for `scripts/gpu_record.py write`; beside them
# bench.json and bench.svg.
#
#   gpu_session.sh [RESULTS] [PART...]     run in, or named by its path in, the packed folder
#
# PART is any of --tests, --checkers and --bench (by itself all three). Tests and checkers that did
# not run together leave results that `gpu_record.py write` takes together; benchmarks are no part
# of them.
set -uo pipefail
parts=() files=()
for argument in "$@"; do
  case $argument in
    --tests | --checkers | --bench) parts+=("${argument#--}") ;;
    --*) echo "gpu_session: no part is called $argument; there are --tests, --checkers and --bench" >&2; exit 2 ;;
    *) files+=("$argument") ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(tests checkers bench)
wanted() { [[ " ${parts[*]} " == *" $1 "* ]]; }
results=$(realpath -m "${files[0]:-gpu_results.json}")
pack=$(cd "$(dirname "$0")" && pwd)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
shopt -s nullglob  # A pattern that nothing matches is no file.
export KILN_CACHE_DIR=$pack/cache
# How many random schedules are compared: on a device they cost seconds.
export KILN_SCHEDULE_CASES=100000
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

# The tests of a program that a spec selects, one name a line and as a test spec wants it, dealt to
# at most so many files LOGS/KIND.PROGRAM.N.names. A file without a name would select every test.
split_tests() {  # KIND PROGRAM SPEC SHARDS
  local names shard
  names=$("$2" --list-test-names-only "$3" | sed 's/[][,\\]/\\&/g')
  [ -n "$names" ] || return
  for ((shard = 0; shard < $4 && shard < $(wc -l <<< "$names"); ++shard)); do
    awk -v shard="$shard" -v shards="$4" '(NR - 1) % shards == shard' <<< "$names" > "$logs/$1.$(basename "$2").$shard.names"
  done
}

# Of what programs that are told to show durations have written.
slowest() { grep -E '^[0-9.]+ s: ' | sort -rn | head -n 12; }

start_tests() {  # PROGRAM NAMES
  "$1" --durations yes --input-file "$2" > "${2%.names}.log" 2>&1
  echo $? > "${2%.names}.code"
}

# Several processes, since most of their time is the host's.
run_tests() {
  local program=$1 name names code good bad all_good=0 all_bad=0
  name=$(basename "$program")
  split_tests tests "$program" '~[.]' 8
  for names in "$logs/tests.$name".*.names; do start_tests "$program" "$names" & done
  wait
  for names in "$logs/tests.$name".*.names; do
    code=$(cat "${names%.names}.code")
    read -r good bad < <(count_cases "${names%.names}.log")
    # A program that crashed, or that skipped itself, has failed here: there is meant to be a GPU.
    [ "$code" = 0 ] || [ "$bad" -gt 0 ] || bad=1
    [ "$bad" = 0 ] || grep -vE '^[0-9.]+ s: ' "${names%.names}.log"
    all_good=$((all_good + good)) all_bad=$((all_bad + bad))
  done
  [ $((all_good + all_bad)) -gt 0 ] || all_bad=1
  cat "$logs/tests.$name".*.log | slowest
  passed=$((passed + all_good)) failed=$((failed + all_bad))
  row "$name" "$all_good passed, $all_bad failed"
}

# Each leaves its output and exit code.
start_checker() {  # TOOL PROGRAM NAMES
  local log=${3%.names}.$1
  # Errors of driver calls are the tests' to judge: some ask on purpose for what is not there.
  compute-sanitizer --tool "$1" --report-api-errors no --error-exitcode 86 \
    "$2" --durations yes --input-file "$3" > "$log" 2>&1
  echo $? > "$log.code"
}

# A checker that cannot work on this machine is reported as not run, which is neither pass nor fail.
judge_checker() {  # TOOL PROGRAM
  local outcome="FAILED: no test was listed" code names log
  for names in "$logs/checked.$(basename "$2")".*.names; do
    log=${names%.names}.$1
    [[ $outcome != *listed ]] || outcome=clean
    if [ ! -e "$log.code" ]; then
      outcome="not run: no compute-sanitizer here"
      break
    fi
    code=$(cat "$log.code")
    if grep -qi 'device not supported' "$log"; then
      outcome="not run: the device is not supported"
      break
    elif [ "$code" = 0 ] && grep -q 'All tests passed' "$log" && ! grep -q 'Invalid Filter' "$log"; then
      continue
    fi
    printf '%s: %s\n' "$1" "$(cat "$names")"
    grep -v 'Host Frame' "$log" | head -n 40
    outcome="FAILED: not every test passed"
    [ "$code" = 0 ] || outcome="FAILED (exit $code)"
  done
  [[ $outcome != FAILED* ]] || failed=$((failed + 1))
  checkers+=("$1 $(basename "$2"): $outcome")
  row "$1 $(basename "$2")" "$outcome"
}

tools=(memcheck racecheck initcheck synccheck)

# A process for each test, several at a time, since most of their time is the host's.
run_checkers() {
  local program tool names
  for program in "$pack"/tests/*; do
    split_tests checked "$program" '[sanitize]' 1000
    command -v compute-sanitizer >/dev/null || continue
    for names in "$logs/checked.$(basename "$program")".*.names; do
      for tool in "${tools[@]}"; do
        start_checker "$tool" "$program" "$names" &
        [ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n
      done
    done
  done
  wait
  for program in "$pack"/tests/*; do
    for tool in "${tools[@]}"; do
      sed "s/\$/ ($tool)/" /dev/null "$logs/checked.$(basename "$program")".*."$tool" | slowest
      judge_checker "$tool" "$program"
    done
  done
}

start_op() {  # LOG ARGUMENTS...
  "$pack/kiln" run "${@:2}" > "$1" 2>&1
  echo $? > "$1.code"
}

# An op that takes fewer rows than these has to say so.
judge_op() {  # LOG OP --m M ARGUMENTS...
  local outcome=agrees most
  cat "$1"
  if [ "$(cat "$1.code")" != 0 ]; then
    most=$(sed -nE "s/^kiln: $2: m must be at most ([0-9]+), found $4\.\$/\1/p" "$1")
    if [ -n "$most" ] && [ "$most" -lt "$4" ]; then
      outcome="refused: at most $most rows"
    else
      outcome=FAILED
      failed=$((failed + 1))
    fi
  fi
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

run_benches() {
  local folder
  folder=$(dirname "$results")
  run_bench "kiln bench" "$pack/kiln" bench --peers "$pack/peer_h200.md" --save "$folder/bench.json" --plot "$folder/bench.svg"
  for program in "$pack"/bench/*; do
    [ -x "$program" ] && run_bench "$(basename "$program")" "$program"
  done
}

if wanted tests; then
  for program in "$pack"/tests/*; do run_tests "$program"; done
  run_ops
fi
! wanted checkers || run_checkers
! wanted bench || run_benches
if ! wanted tests && ! wanted checkers; then
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
[ "$failed" = 0 ] && { [ "$passed" -gt 0 ] || ! wanted tests; }
