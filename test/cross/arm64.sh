#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the library and its unit tests for arm64 with Debian's cross compiler, and runs the tests of
# the protocol under qemu. Nothing of arm64 is installed on this host: the libraries come from
# Debian's arm64 packages, unpacked into a folder.
#
#   arm64.sh FOLDER    FOLDER gets the packages and the build; a later call uses both again
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "${1:?usage: arm64.sh FOLDER}"
folder=$(cd "$1" && pwd)
system=$folder/system

# What packages.txt has under [run] and [test] for programs that run here, and here for arm64.
libraries=(libc6-dev libstdc++-12-dev libgcc-12-dev libboost-dev libcli11-dev libdpdk-dev
  libfabric-dev libfmt-dev libibverbs-dev libisal-dev libnl-route-3-dev nlohmann-json3-dev
  libsodium-dev libspdlog-dev catch2 librapidcheck-dev)

# apt with a state of its own, in which this host is an arm64 machine without a package.
apt_for_arm64() {
  apt-get -q -y -o APT::Architecture=arm64 -o APT::Architectures::=arm64 \
    -o Dir::State="$folder/apt/state" -o Dir::State::status="$folder/apt/status" \
    -o Dir::Cache="$folder/apt/cache" -o APT::Install-Recommends=false \
    -o APT::Sandbox::User=root -o Debug::NoLocking=true "$@"
}

if [[ ! -f $system/.whole ]]; then
  mkdir -p "$folder"/apt/{state,cache}/{lists,archives}/partial "$system"
  : >"$folder/apt/status"
  apt_for_arm64 update >"$folder/apt/log" 2>&1 &&
    apt_for_arm64 --download-only install "${libraries[@]}" >>"$folder/apt/log" 2>&1 || {
    tail -n 20 "$folder/apt/log" >&2
    exit 1
  }
  # Debian 12 merges /bin, /lib and /sbin into /usr.
  for name in bin lib sbin; do
    mkdir -p "$system/usr/$name"
    ln -sfn "usr/$name" "$system/$name"
  done
  for package in "$folder"/apt/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$system" --keep-directory-symlink
  done
  # Links that begin at / would lead to this host's files.
  find "$system" -type l -lname '/*' | while read -r link; do
    ln -sfnr "$system$(readlink "$link")" "$link"
  done
  touch "$system/.whole"
fi

export HAWSER_ARM64_SYSTEM=$system
export PKG_CONFIG_SYSROOT_DIR=$system
export PKG_CONFIG_LIBDIR=$system/usr/lib/aarch64-linux-gnu/pkgconfig:$system/usr/share/pkgconfig
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
cmake -S "$root" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_TOOLCHAIN_FILE="$root/test/cross/arm64.cmake" >"$folder/configure.log" 2>&1 || {
  cat "$folder/configure.log" >&2
  exit 1
}
grep '^-- Left out' "$folder/configure.log" || true
ninja -C "$folder/build" --quiet hawser_gate
qemu-aarch64-static -L "$system" "$folder/build/test/proto/test_proto"
