#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds, and runs tests.
#
#   ./test.sh                   the gate's tests in the release preset; every change must pass them
#   ./test.sh PRESET ...        the same in other presets:
#                               release, debug, asan (address and undefined behaviour)
#                               tsan: the threaded tests
#                               fuzz: each fuzzer for HAWSER_FUZZ_SECONDS (20)
#                               storm: the seeds 1 to HAWSER_STORM_SEEDS (12000); a quarter as many
#                               from 1,000,001 on, with partners that come and go; and as many from
#                               2,000,001 on, with narrow paths and stale epochs
#                               torch: the backend of torch.distributed
#   ./test.sh PRESET -- ...     passes the rest to ctest, which then chooses among all tests of the
#                               preset: ./test.sh asan -- -R codec
#   ./test.sh deep [STAGE ...]  every other test, in stages; takes hours (./test.sh deep --list)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ ${1:-} == deep ]]; then
  exec "$root/test/runner/deep.sh" "${@:2}"
fi

presets=()
while (($#)) && [[ $1 != -- ]]; do
  case $1 in
    release | debug | asan | tsan | fuzz | storm | torch) presets+=("$1") ;;
    *)
      sed -n '3,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
      exit 2
      ;;
  esac
  shift
done
((${#presets[@]})) || presets=(release)
chosen=()
(($#)) && chosen=(-- "${@:2}")

"$root/setup.sh" test
for preset in "${presets[@]}"; do
  [[ $preset != fuzz && $preset != torch ]] || "$root/setup.sh" "$preset"
done
source "$root/cmake/without_aslr.sh"

run_fuzzers() {
  local folder=$root/build/fuzz seconds=${HAWSER_FUZZ_SECONDS:-20} fuzzer count=0
  while read -r fuzzer; do
    [[ -n $fuzzer ]] || continue
    count=$((count + 1))
    local program corpus kept dictionary=()
    program=$(find "$folder/test" -type f -name "$fuzzer" -perm -u+x | head -n 1)
    corpus=$folder/corpus/$fuzzer
    kept=$root/test/fuzz/corpus/$fuzzer
    mkdir -p "$corpus"
    [[ -f $root/test/fuzz/$fuzzer.dict ]] && dictionary=(-dict="$root/test/fuzz/$fuzzer.dict")
    echo "fuzzing $fuzzer for $seconds s"
    # Entropic scheduling would take over half of the time of an input with many features.
    if ! "${without_aslr[@]}" timeout $((seconds + 60)) "$program" -max_total_time="$seconds" -timeout=10 \
      -rss_limit_mb=2048 -print_final_stats=0 -verbosity=0 -entropic=0 "${dictionary[@]}" \
      -artifact_prefix="$folder/$fuzzer-" "$corpus" "$kept"; then
      echo "fuzz: $fuzzer failed; its input is $folder/$fuzzer-*" >&2
      return 1
    fi
  done <"$folder/fuzzers.txt"
  echo "$count fuzzers ran for $seconds s each, 0 failed"
  ((count > 0))
}

run_storms() {
  local seeds=${HAWSER_STORM_SEEDS:-12000}
  local more=$((seeds / 4 + 1))
  "$root/build/release/tool/hawser" storm --seeds "1..$seeds" --json "$root/build/release/storm.json" &&
    "$root/build/release/tool/hawser" storm --seeds "1000001..$((1000000 + more))" \
      --json "$root/build/release/storm_partners.json" &&
    "$root/build/release/tool/hawser" storm --seeds "2000001..$((2000000 + more))" \
      --json "$root/build/release/storm_epochs.json" &&
    "$root/build/release/tool/hawser" storm --seeds "3000001..$((3000000 + more))" \
      --json "$root/build/release/storm_one_sided.json" &&
    echo "$((seeds + 3 * more)) storms, 0 failed"
}

# Runs the tests of a preset: those of the gate, or those that the caller has chosen.
run_ctests() {
  local labels=(--label gate)
  ((${#chosen[@]})) && labels=()
  [[ $1 == tsan ]] && labels+=(--label threaded)
  local tests=("${chosen[@]}")
  # The preset's other tests are those of release.
  if [[ $1 == torch ]]; then
    labels=()
    ((${#tests[@]})) || tests=(-- -R '^torch: ')
  fi
  "${without_aslr[@]}" python3 "$root/test/runner/run_tests.py" "$root/build/$1" "${labels[@]}" "${tests[@]}"
}

# Leaves the results where stages.sh, if it is the caller, finds them.
report() {
  [[ -n ${HAWSER_REPORT:-} ]] || return 0
  echo "$2" >>"$HAWSER_REPORT/summary"
  local kind
  for kind in failures unsteady; do
    [[ ! -s $root/build/$1/$kind.log ]] || sed "s/^== /== $1: /" "$root/build/$1/$kind.log" >>"$HAWSER_REPORT/$kind"
  done
}

summary=()
reported=0
failed=0
for preset in "${presets[@]}"; do
  folder=$preset
  targets=()
  ((${#chosen[@]})) || targets=(hawser_gate)
  command=(run_ctests "$preset")
  case $preset in
    tsan) targets=(hawser_threaded) ;;
    torch) targets=(hawser_torch) ;;
    fuzz) targets=() command=(run_fuzzers) ;;
    storm) folder=release targets=(hawser) command=(run_storms) ;;
  esac
  "$root/build.sh" "$folder" "${targets[@]}"
  log=$root/build/$folder/$([[ $preset == storm ]] && echo storm || echo test).log
  status=0
  rm -f "$root/build/$preset"/{failures,unsteady}.log
  (cd "$root" && "${command[@]}") 2>&1 | tee "$log" || status=$?
  ((status == 0)) || failed=1
  last=$(grep -E 'tests passed|fuzzers ran|storms, ' "$log" | tail -n 1 || true)
  summary+=("$(printf '%-8s %s' "$preset" "${last:-FAILED (above)}")")
  while read -r line; do
    summary+=("         left out: $line")
  done <"$root/build/$folder/left_out.txt"
  report "$preset" "$(printf '%s\n' "${summary[@]:$reported}")"
  reported=${#summary[@]}
done

echo
echo "summary"
printf '  %s\n' "${summary[@]}"
exit $failed
