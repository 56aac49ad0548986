#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Follows the README as a newcomer does: in an empty Debian 12 with nothing but git installed, runs
# ./run.sh and then ./test.sh in one clone of HEAD.
#
#   newcomer.sh FOLDER    FOLDER gets the new system; a later call uses it again
#
# It needs root, debootstrap, and the mirror in this host's own lists. Status 77: one is missing.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=${1:?usage: newcomer.sh FOLDER}
system=$folder/system

skip() {
  echo "newcomer.sh: skipped: $*" >&2
  exit 77
}
((EUID == 0)) || skip "a new system is made by root"
command -v debootstrap >/dev/null || skip "debootstrap is not installed"
mirror=$(apt-get indextargets --format '$(SITE)' 'Codename: bookworm' 'Created-By: Packages' 2>/dev/null | head -n 1)
[[ -n $mirror ]] || skip "the lists of this host name no mirror of bookworm"

if [[ ! -f $folder/ready ]]; then
  rm -rf "$system"
  mkdir -p "$system"
  debootstrap --variant=minbase --include=ca-certificates bookworm "$system" "$mirror" >"$folder/debootstrap.log" 2>&1 || {
    tail -n 20 "$folder/debootstrap.log" >&2
    exit 1
  }
  # Use the same mirrors as here, and the same name servers to reach them.
  cp -r /etc/apt/sources.list* "$system/etc/apt/"
  cp /etc/resolv.conf "$system/etc/" 2>/dev/null || true
  touch "$folder/ready"
fi

# The mounts go away with the last process of this mount namespace.
rm -rf "$system/srv/hawser"
git clone -q "$root" "$system/srv/hawser"
exec unshare --mount --pid --fork --kill-child bash -euc '
  system=$1
  mount -t proc proc "$system/proc"
  mount --rbind /sys "$system/sys"
  mount --rbind /dev "$system/dev"
  exec chroot "$system" env -i HOME=/srv PATH=/usr/sbin:/usr/bin:/sbin:/bin bash -euc "
    cd /srv/hawser
    echo \"-- ./run.sh\"
    time ./run.sh
    echo \"-- ./test.sh\"
    time ./test.sh"' newcomer "$system"
