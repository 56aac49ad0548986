# SPDX-License-Identifier: Apache-2.0
"""Unpacks a Debian kernel with soft RoCE into the cache: an ELF image and its modules.

The -cloud kernels won't do, since they lack rdma_rxe and 9p. 6.12 comes before 6.1: with one
processor 6.1 has locked up when a peer's port went down.
"""

import fcntl
import gzip
import lzma
import os
import pathlib
import re
import shutil
import struct
import tempfile
from typing import NamedTuple

from reason import Impossible, call

PACKAGE = re.compile(r"linux-image-((6)\.(12|1)\.(\d+)(?:-(\d+)|\+deb12)-amd64)")
DOWNLOAD_SECONDS = 300


class Kernel(NamedTuple):
    version: str
    folder: pathlib.Path  # of the unpacked package

    @property
    def elf(self):
        return self.folder / "vmlinux"


def get(cache):
    """The newest kernel in the cache, or, if there is none, the newest that apt knows."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folders = [entry.name for entry in cache.iterdir() if (entry / "vmlinux").exists()]
        package = newest(folders) or download(cache)
    return Kernel(PACKAGE.fullmatch(package)[1], cache / package)


def newest(packages):
    matches = [match for match in map(PACKAGE.fullmatch, packages) if match]
    if not matches:
        return None
    return max(matches, key=lambda match: tuple(int(part or 0) for part in match.groups()[1:]))[0]


def download(cache):
    package = newest(call(["apt-cache", "pkgnames", "linux-image-6."], 60).decode().split())
    if package is None:
        raise Impossible("apt knows no kernel linux-image-6.12.*-amd64 or 6.1; call apt-get update")
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        folder = pathlib.Path(scratch)
        # As root, apt would switch to a user who can't write here.
        call(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package],
             DOWNLOAD_SECONDS, cwd=folder)
        archives = list(folder.glob("*.deb"))
        unpacked = folder / package
        call(["dpkg-deb", "-x", str(archives[0]), str(unpacked)], 120)
        version = PACKAGE.fullmatch(package)[1]
        (unpacked / "vmlinux").write_bytes(
            elf_of((unpacked / "boot" / f"vmlinuz-{version}").read_bytes()))
        call(["depmod", "-b", str(unpacked), version], 60)
        shutil.rmtree(unpacked / "usr", ignore_errors=True)
        os.rename(unpacked, cache / package)
    return package


def elf_of(image):
    """The ELF file inside a bzImage. It boots without unpacking, which takes seconds in emulation.

    The offsets are those of Linux's boot protocol 2.08: setup_sects 0x1f1, payload_offset 0x248,
    payload_length.
    """
    setup_sectors = image[0x1f1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start:start + length]
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        payload = payload[:-4]  # the kernel's build appends the length
        elf = call(["zstd", "-q", "-d", "-c"], 60, input=payload)
    elif payload.startswith(b"\xfd7zXZ"):
        elf = lzma.LZMADecompressor().decompress(payload)
    elif payload.startswith(b"\x1f\x8b"):
        elf = gzip.decompress(payload)
    else:
        raise Impossible("the kernel image is compressed in a way that test/vm/kernel.py doesn't know")
    if not elf.startswith(b"\x7fELF"):
        raise Impossible("the kernel image holds no ELF file")
    return elf
