#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes clang check the sources of all fuzzers without compiling them to code. g++, which compiles
# everything else, accepts some things that clang refuses. Usage: test/fuzz/clang_reads.sh
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$root/build/fuzz
log=$root/build/clang_reads.log

mkdir -p "$root/build"
if ! (cd "$root" && cmake --preset fuzz) >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cd "$folder"
mapfile -t commands < <(ninja -t commands all | grep -E 'clang\+\+-14 .* -c ' | sed 's/ -c / -fsyntax-only /')
if ((${#commands[@]} == 0)); then
  echo "clang_reads.sh: the preset fuzz compiles nothing" >&2
  exit 1
fi
# The compiler cache stores nothing of a run that has no output file.
export CCACHE_DISABLE=1
printf '%s\0' "${commands[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c '{}'
echo "clang has read ${#commands[@]} files"
