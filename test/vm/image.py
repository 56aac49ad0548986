# SPDX-License-Identifier: Apache-2.0
"""Makes the initial file system of the machine: static busybox, the needed modules, and guest/."""

import hashlib
import lzma
import pathlib
import shutil
import tempfile

from reason import Impossible, call

MODULES = """
virtio_pci virtio_console 9pnet_virtio 9p overlay crc32_generic ib_core ib_uverbs rdma_ucm rdma_rxe
sch_netem sch_prio cls_u32 veth bridge
""".split()
GUEST = pathlib.Path(__file__).resolve().parent / "guest"
BUSYBOX = pathlib.Path("/bin/busybox")
FOLDERS = ("bin", "modules", "proc", "sys", "dev", "host", "over", "root", "result")


def get(cache, kernel):
    """The image, made anew if its contents have changed."""
    if not BUSYBOX.exists():
        raise Impossible("busybox-static is not installed; ./setup.sh vm installs it")
    digest = hashlib.sha256(" ".join(MODULES).encode() + BUSYBOX.read_bytes())
    for script in sorted(GUEST.iterdir()):
        digest.update(script.read_bytes())
    path = cache / f"initrd-{kernel.version}-{digest.hexdigest()[:16]}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            folder = pathlib.Path(scratch)
            made = folder / "image"
            made.write_bytes(archive(fill(folder / "tree", kernel)))
            made.rename(path)
    return path


def fill(tree, kernel):
    for name in FOLDERS:
        (tree / name).mkdir(parents=True)
    shutil.copy(BUSYBOX, tree / "bin" / "busybox")
    for script in GUEST.iterdir():
        shutil.copy(script, tree / script.name)
    (tree / "init").chmod(0o755)
    order = []
    for module in MODULES:
        for path in dependencies(module, kernel):
            if path.name.split(".")[0] not in order:
                order.append(path.name.split(".")[0])
                (tree / "modules" / order[-1]).write_bytes(unpacked(path))
    (tree / "modules" / "order").write_text("\n".join(order) + "\n")
    return tree


def dependencies(module, kernel):
    """The files of a module and of those it needs, in loading order; none if it is built in."""
    lines = call(["modprobe", "-d", str(kernel.folder), "-S", kernel.version, "--show-depends", module],
                 30).decode().splitlines()
    return [pathlib.Path(line.split()[1]) for line in lines if line.startswith("insmod ")]


def unpacked(path):
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


def archive(tree):
    names = [str(path.relative_to(tree)) for path in sorted(tree.rglob("*"))]
    return call(["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"], 60, cwd=tree,
                input="\n".join(names).encode())
