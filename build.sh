#!/usr/bin/env bash
# Configures (once) and builds a preset of CMakePresets.json: ./build.sh PRESET [TARGET ...]
# Where nobody watches, it says nothing unless something fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
preset=${1:?usage: ./build.sh PRESET [TARGET ...]}
shift
folder=$root/build/$preset

# Another checkout of the same sources finds its objects in the compiler cache, wherever it lies.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}

mkdir -p "$folder"
# Two builds of one folder at once would spoil it: the second waits.
exec 9>"$folder/.lock"
flock 9

log=$folder/.configure.log
if [[ ! -f $folder/build.ninja ]]; then
  if ! (cd "$root" && cmake --preset "$preset") >"$log" 2>&1 9>&-; then
    cat "$log" >&2
    echo "build.sh: configuring the preset $preset failed (above)" >&2
    exit 1
  fi
fi
quiet=--quiet
[[ -t 1 ]] && quiet=
[[ -f $folder/.ninja_deps ]] || echo "building the preset $preset: some minutes the first time"
if ! ninja -C "$folder" $quiet "$@" 9>&-; then
  echo "build.sh: building the preset $preset failed (above)" >&2
  exit 1
fi
