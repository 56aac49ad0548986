#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test that the gate leaves out, in stages. It has no budget: the stages take hours.
#
#   ./test.sh deep              all stages
#   ./test.sh deep STAGE ...    these
#   ./test.sh deep --list       their names
#
# A failed stage doesn't stop later ones. The summary tells each stage's time, and what failed.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit 1
source test/runner/stages.sh

# The release preset's deep tests, by the beginning of their names. `others` are all the rest.
declare -A release_tests=(
  [commands]='^(run|launch|storm|sim): '
  [mpi]='^mpi: '
  [install]='^install: '
  [suites]='^suites: '
  [machine]='^vm: '
  [model]='^model: '
  [mutations]='^mutation: '
  [benches]='^(bench\.|instructions: )'
)
names=(commands mpi install suites machine model mutations benches others asan tsan fuzz storms torch arm64 newcomer)

case ${1:-} in
  --list)
    printf '%s\n' "${names[@]}"
    exit 0
    ;;
  -*)
    echo "usage: ./test.sh deep [STAGE ...] | --list" >&2
    exit 2
    ;;
esac
for name in "$@"; do
  [[ " ${names[*]} " == *" $name "* ]] || {
    echo "test.sh deep: no stage is called '$name'; they are: ${names[*]}" >&2
    exit 2
  }
done
chosen=("$@")
((${#chosen[@]})) || chosen=("${names[@]}")

# Ten hours: the limit only ends a hang.
limit=36000

wanted() { [[ " ${chosen[*]} " == *" $1 "* ]]; }

# Runs stage NAME: the deep tests of a preset that the options for ctest select.
deep_tests() {
  stage "$1" "$limit" ./test.sh "$2" -- -L '^deep$' "${@:3}"
}

# The emulated machine must be available: none of its tests may be skipped.
export HAWSER_VM_REQUIRED=1
export HAWSER_FUZZ_SECONDS=${HAWSER_FUZZ_SECONDS:-60}

packages=(test)
wanted fuzz && packages+=(fuzz)
wanted machine && packages+=(vm)
wanted suites && packages+=(suites)
wanted torch && packages+=(torch)
wanted arm64 && packages+=(arm64)
wanted newcomer && packages+=(newcomer)
# A stage without its packages says what it lacks, and the others go on.
for set in "${packages[@]}"; do
  stage "packages, $set" 1200 ./setup.sh "$set" || [[ $set != test ]] || end_of_stages $limit
done

everything=
for name in "${chosen[@]}"; do
  if [[ -n ${release_tests[$name]:-} || $name == others ]]; then
    [[ -n $everything ]] || stage "build, release" "$limit" ./build.sh release || break
    everything=built
  fi
  if [[ -n ${release_tests[$name]:-} ]]; then
    deep_tests "$name" release -R "${release_tests[$name]}"
    continue
  fi
  case $name in
    others) deep_tests "$name" release -E "$(IFS='|' && echo "${release_tests[*]}")" ;;
    asan) deep_tests "$name" asan ;;
    tsan) deep_tests "$name" tsan -L '^threaded$' ;;
    fuzz) stage "$name" "$limit" ./test.sh fuzz ;;
    storms) stage "$name" "$limit" ./test.sh storm ;;
    torch) stage "$name" "$limit" ./test.sh torch ;;
    arm64) stage "$name" "$limit" test/cross/arm64.sh build/arm64 ;;
    newcomer) stage "$name" "$limit" test/runner/newcomer.sh build/newcomer ;;
  esac
done
end_of_stages $limit
