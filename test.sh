#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests.
#
#   ./test.sh                 every test, in the release preset
#   ./test.sh PRESET ...      release, debug, asan (address and undefined behaviour), tsan (what is
#                             threaded), fuzz (each fuzzer for HAWSER_FUZZ_SECONDS, default 20),
#                             storm (seeds 1 to HAWSER_STORM_SEEDS, default 12000)
#   ./test.sh all             release asan tsan fuzz storm
#   ./test.sh PRESET -- ...   the rest goes to ctest, e.g. ./test.sh asan -- -R codec
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

presets=()
while (($#)) && [[ $1 != -- ]]; do
  case $1 in
    release | debug | asan | tsan | fuzz | storm) presets+=("$1") ;;
    all) presets+=(release asan tsan fuzz storm) ;;
    *)
      sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2
      exit 2
      ;;
  esac
  shift
done
(($#)) && shift
((${#presets[@]})) || presets=(release)
[[ " ${presets[*]} " == *" fuzz "* ]] && packages=fuzz || packages=test

"$root/setup.sh" "$packages"

# The sanitizers of these compilers lose their shadow memory where the kernel randomizes addresses by
# more than 28 bits: there everything, test discovery in the build too, runs without randomization.
without_aslr=()
if (($(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 0) > 28)) && setarch -R true 2>/dev/null; then
  without_aslr=(setarch -R)
fi

summary=()
failed=0

# What failed, by name, and the end of what each printed: in a long log they are far from its end.
failures() {
  sed -n '/^The following tests FAILED/,/^Errors while/{/^\t/p}' "$1"
  awk -v most=60 '
    function flush(   first, k) {
      if (!bad) return
      first = lines > most ? lines - most + 1 : 1
      print "== " title
      for (k = first; k <= lines; k++) print text[k]
    }
    / Test +#[0-9]+: / { flush(); bad = /\*\*\*/ && !/\*\*\*Skipped/; title = $0; lines = 0; next }
    /tests passed, / { flush(); bad = 0 }
    { text[++lines] = $0 }' "$1"
}

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
    # Entropic scheduling takes more than half of the time of an input with many features.
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

for preset in "${presets[@]}"; do
  if [[ $preset == storm ]]; then
    "$root/build.sh" release hawser
    seeds=${HAWSER_STORM_SEEDS:-12000}
    if "$root/build/release/tool/hawser" storm --seeds "1..$seeds" --json "$root/build/release/storm.json"; then
      summary+=("storm    $seeds storms, 0 failed")
    else
      summary+=("storm    FAILED (above)")
      failed=1
    fi
    continue
  fi
  # tsan runs what is threaded, and builds no more.
  targets=()
  [[ $preset == tsan ]] && targets=(hawser_threaded)
  "${without_aslr[@]}" "$root/build.sh" "$preset" "${targets[@]}"
  log=$root/build/$preset/test.log
  status=0
  if [[ $preset == fuzz ]]; then
    run_fuzzers 2>&1 | tee "$log" || status=$?
  else
    (cd "$root" && "${without_aslr[@]}" ctest --preset "$preset" --parallel "$(nproc)" "$@") 2>&1 |
      grep --line-buffered -vE '^ +Start ' | tee "$log" || status=$?
  fi
  summary+=("$(printf '%-8s %s' "$preset" "$(grep -E 'tests passed|fuzzers ran|No tests' "$log" | tail -n 1)")")
  failures "$log" >"$root/build/$preset/failures.log"
  ((status == 0)) || failed=1
done

for preset in "${presets[@]}"; do
  [[ ! -s $root/build/$preset/failures.log ]] || printf '\nfailed in %s\n%s\n' "$preset" "$(<"$root/build/$preset/failures.log")"
done
echo
echo "summary"
printf '  %s\n' "${summary[@]}"
exit $failed
