#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures (again if packages have changed) and builds a preset of CMakePresets.json:
#   ./build.sh PRESET [TARGET ...]
# Without a terminal it prints nothing unless something fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
preset=${1:?usage: ./build.sh PRESET [TARGET ...]}
shift
folder=$root/build/$preset

# Every checkout of the same sources, in any folder, finds its objects in the compiler cache.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
# The compiler's own list of headers serves as the key: a miss doesn't preprocess the file twice.
export CCACHE_DEPEND=${CCACHE_DEPEND:-1}
# The compiler cache needs this to serve precompiled headers, and to hash such a large file once.
export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS:-pch_defines,time_macros} CCACHE_INODECACHE=${CCACHE_INODECACHE:-1}

source "$root/cmake/without_aslr.sh"
[[ $preset == release ]] && without_aslr=()

mkdir -p "$folder"
# Two builds of one folder at once would spoil it, so the second one waits.
exec 9>"$folder/.lock"
flock 9

# The build depends on the installed packages: if they have changed, it is configured anew.
mapfile -t known < <(awk '{ sub(/#.*/, "") } NF == 1 && !/^\[/ { print $1 }' "$root/packages.txt")
packages=$(dpkg-query -W -f='${db:Status-Status} ${Package} ${Version}\n' "${known[@]}" 2>/dev/null | grep ^installed || true)
log=$folder/.configure.log
if [[ ! -f $folder/build.ninja || ! -f $folder/.packages || $packages != "$(<"$folder/.packages")" ]]; then
  rm -f "$folder/.packages"
  if ! (cd "$root" && cmake --preset "$preset" --fresh) >"$log" 2>&1 9>&-; then
    cat "$log" >&2
    echo "build.sh: configuring the preset $preset failed (above)" >&2
    exit 1
  fi
  echo "$packages" >"$folder/.packages"
fi
quiet=--quiet
[[ -t 1 ]] && quiet=
[[ -f $folder/.ninja_deps ]] || echo "building the preset $preset: some minutes the first time"
if ! "${without_aslr[@]}" ninja -C "$folder" $quiet "$@" 9>&-; then
  echo "build.sh: building the preset $preset failed (above)" >&2
  exit 1
fi
