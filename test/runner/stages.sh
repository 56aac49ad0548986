# SPDX-License-Identifier: Apache-2.0
# Stages of a long run, sourced by .ci/run and deep.sh. Each stage is a command with a time limit.
# The summary tells each stage's time, what failed, and whether a process was left behind.
#
#   stage NAME LIMIT_SECONDS COMMAND ...   runs it; returns its exit status, or 0 for 77: the
#                                          command then lacks something, and has said what
#   end_of_stages BUDGET_SECONDS           prints the summary and exits: 0, or 1 if anything failed
#
# The caller sets `root`, the top of the tree. The commands put their results into the folder
# HAWSER_REPORT. `summary` has a line for each set of tests. `failures` has the tests that failed,
# and `unsteady` those that failed at first, each after a line `== NAME`.

rows=()
failed=0
export HAWSER_REPORT=$root/build/report
rm -rf "$HAWSER_REPORT" && mkdir -p "$HAWSER_REPORT"
# Every process that a stage starts inherits this token, even if it leaves its process group.
export HAWSER_RUN_TOKEN="run-$$-$RANDOM$RANDOM"

# The processor time of all children that have ended, in hundredths of a second. On a busy host it
# tells more than the clock.
cpu() {
  local -a field
  read -r -a field <"/proc/$$/stat"
  echo $(((field[15] + field[16]) * 100 / $(getconf CLK_TCK)))
}

# Runs the command in a process group of its own, which the time limit ends as a whole.
stage() {
  local name=$1 limit=$2 from=$SECONDS cpu_from status=0 verdict=ok
  cpu_from=$(cpu)
  shift 2
  echo
  echo "== $name"
  timeout --kill-after=20 "$limit" "$@" || status=$?
  case $status in
    0) ;;
    77) verdict="skipped (the reason is above)" status=0 ;;
    124 | 137) verdict="FAILED (over $limit s)" ;;
    *) verdict="FAILED (exit $status)" ;;
  esac
  ((status == 0)) || failed=1
  rows+=("$(printf '%-24s %5d s  %5d s of processor  %s' "$name" $((SECONDS - from)) \
    $((($(cpu) - cpu_from) / 100)) "$verdict")")
  if [[ -s $HAWSER_REPORT/summary ]]; then
    rows+=("$(sed 's/^/    /' "$HAWSER_REPORT/summary")")
    rm "$HAWSER_REPORT/summary"
  fi
  return $status
}

# Lists the processes that stages have left behind, as lines "PID COMMAND". A process counts if its
# environment has the token, or if its program is in this tree's build folder.
strays() {
  local folder pid entry program
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    [[ $pid == "$$" || $pid == "$BASHPID" ]] && continue
    program=$(readlink "$folder/exe" 2>/dev/null) || continue
    if [[ $program != "$root"/build/* ]]; then
      entry=
      while IFS= read -r -d '' entry && [[ $entry != "HAWSER_RUN_TOKEN=$HAWSER_RUN_TOKEN" ]]; do
        entry=
      done 2>/dev/null <"$folder/environ"
      [[ $entry == "HAWSER_RUN_TOKEN=$HAWSER_RUN_TOKEN" ]] || continue
    fi
    echo "$pid $(tr '\0' ' ' <"$folder/cmdline" 2>/dev/null | cut -c1-200)"
  done
}

end_of_stages() {
  local budget=$1 left pid unsteady=0
  left=$(strays)
  if [[ -n $left ]]; then
    failed=1
    rows+=("left running: $left")
    while read -r pid _; do kill -9 "$pid" 2>/dev/null; done <<<"$left"
  fi
  echo
  echo "== summary ($SECONDS s in all)"
  printf '%s\n' "${rows[@]}"
  if [[ -s $HAWSER_REPORT/failures ]]; then
    sed 's/^== /failed: /' "$HAWSER_REPORT/failures"
  fi
  if [[ -s $HAWSER_REPORT/unsteady ]]; then
    sed 's/^== /unsteady: /' "$HAWSER_REPORT/unsteady"
    unsteady=$(grep -c '^== ' "$HAWSER_REPORT/unsteady")
  fi
  if ((unsteady >= 3)); then
    failed=1
    echo "$unsteady unsteady tests: three fail a run"
  fi
  if ((failed)); then
    echo "failed in $SECONDS s"
  elif ((SECONDS > budget)); then
    echo "passed in $SECONDS s, $((SECONDS - budget)) s over the budget of $budget s"
  else
    echo "passed in $SECONDS s, within the budget of $budget s"
  fi
  exit $failed
}
