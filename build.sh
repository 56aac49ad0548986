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
# The compiler's own list of headers serves as the key: a miss doesn't preprocess the file twice.
export CCACHE_DEPEND=${CCACHE_DEPEND:-1}
# What the compiler cache needs to serve precompiled headers, and to hash such a large file once.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros} CCACHE_INODECACHE=${CCACHE_INODECACHE:-1}

source "$root/cmake/without_aslr.sh"
[[ $preset == release ]] && without_aslr=()

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
if ! "${without_aslr[@]}" ninja -C "$folder" $quiet "$@" 9>&-; then
  echo "build.sh: building the preset $preset failed (above)" >&2
  exit 1
fi
