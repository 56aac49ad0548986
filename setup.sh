#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of packages.txt that are missing:
#   ./setup.sh [run|test|vm|fuzz|suites|newcomer|coverage|compare|arm64|torch]
# If none is missing, this costs one dpkg-query.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
  echo "setup.sh: $*" >&2
  exit 1
}

case ${1:-run} in
  run) sections=run ;;
  test) sections="test run" ;;
  vm) sections="vm test run" ;;
  fuzz) sections="fuzz test run" ;;
  suites) sections="suites test run" ;;
  newcomer) sections="newcomer" ;;
  coverage) sections="coverage run" ;;
  compare) sections="compare run" ;;
  arm64) sections="arm64 run" ;;
  torch) sections="torch test run" ;;
  *) die "usage: ./setup.sh [run|test|vm|fuzz|suites|newcomer|coverage|compare|arm64|torch]" ;;
esac

mapfile -t wanted < <(awk -v sections=" $sections " '
  { sub(/#.*/, "") }
  /^\[/ { section = substr($1, 2, length($1) - 2); next }
  NF && index(sections, " " section " ") { print $1 }' "$root/packages.txt")

if ! command -v dpkg-query >/dev/null; then
  die "this is no Debian (no dpkg-query): install the likes of packages.txt by hand, then call cmake --preset release"
fi
installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null |
  awk '$1 == "installed" { print $2 }' || true)
missing=()
for package in "${wanted[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
((${#missing[@]})) || exit 0

release=$(. /etc/os-release 2>/dev/null && echo "${ID:-unknown} ${VERSION_ID:-}" || echo unknown)
[[ $release == "debian 12" ]] ||
  die "packages are missing (${missing[*]}) and are installed for you on Debian 12 only; this is $release"

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    die "packages are missing (${missing[*]}): call this as root, or install sudo"
  as_root=(sudo)
  [[ -t 0 ]] || as_root=(sudo -n)
  "${as_root[@]}" true || die "packages are missing (${missing[*]}) and sudo refuses: call this as root"
fi

echo "setup.sh: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The package lists of this host may be new enough; else fetch them and try again.
apt_install() {
  timeout 900 "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    --no-install-recommends -o DPkg::Lock::Timeout=120 "${missing[@]}" >"$log" 2>&1
}
apt_update() {
  timeout 300 "${as_root[@]}" apt-get update -q -o DPkg::Lock::Timeout=120 \
    -o APT::Update::Error-Mode=any >"$log" 2>&1
}
if ! apt_install; then
  if ! apt_update; then
    tail -n 5 "$log" >&2
    die "apt-get update failed (its last words above): is there a network, and a mirror in /etc/apt?"
  fi
  if ! apt_install; then
    tail -n 15 "$log" >&2
    die "apt-get install failed (its last words above)"
  fi
fi
