# SPDX-License-Identifier: Apache-2.0
"""Boots the machine, passes on the program's output, and brings back its exit code."""

import ctypes
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from reason import Impossible

QEMU = "qemu-system-x86_64"
BOOT_SECONDS = 180  # 5 to 10 are usual; on a host with four times as much to do, 60
BOOTS = 3
BOOTED_AGAIN = "vm: booted again: "
TIMED_OUT = 124
DIED = 125
PR_SET_PDEATHSIG = 1
# The kernel boots on one processor, and init starts the others (guest/init). A booting kernel
# patches its own code all the time. When one processor patches code that another is running, qemu
# before 8.1 may keep the old translation forever. With two processors, one boot of 60 ended in a
# panic in an int3 that was long gone.
# Without no_timer_check the kernel compares the timer's ticks with a loop of its own. If the host
# lets qemu wait, ticks are missing and the kernel panics ("IO-APIC + timer doesn't work").
KERNEL_LINE = ("console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr random.trust_cpu=on "
               "no_timer_check maxcpus=1 noreplace-smp rdinit=/init")


def check_tools():
    for tool in (QEMU, "cpio", "modprobe", "zstd", "ip", "rdma"):
        if shutil.which(tool) is None and shutil.which(tool, path="/sbin:/usr/sbin") is None:
            raise Impossible(f"{tool} is not installed; ./setup.sh vm installs it")


class DiedBooting(Impossible):
    """The guest's kernel died before any program ran."""


def run(kernel, initrd, options):
    """Boots again if the kernel dies before it is up. Of some 600 boots one did, on one processor.
    Its flags register held bits that no instruction can set, so it was qemu's fault. The program
    has not begun then. Once it has begun, the machine's death is a failure."""
    for left in reversed(range(BOOTS)):
        try:
            return run_once(kernel, initrd, options)
        except DiedBooting as died:
            if left == 0:
                raise
            print(f"{BOOTED_AGAIN}{died}".replace("\n", "\n    "), file=sys.stderr)
    raise AssertionError("no boot at all")


def run_once(kernel, initrd, options):
    with tempfile.TemporaryDirectory(prefix="hawser-vm-") as folder:
        share = pathlib.Path(folder)
        (share / "command").write_text(command_of(options))
        (share / "settings").write_text(
            f"cables={options.cables}\nports={options.ports}\nmtu={options.mtu}\ntimeout={options.timeout}\n")
        with Machine(kernel, initrd, options, share) as machine:
            machine.wait_for(share / "ready", BOOT_SECONDS)
            # The guest ends the program in time; this limit is for a guest that no longer can.
            machine.wait_for_end(options.timeout + 30)
            return exit_code(share, machine)


def command_of(options):
    """The commands for the guest's shell: this folder, these variables, this program."""
    lines = [f"cd {shlex.quote(os.getcwd())} || exit 126"]
    for setting in options.env:
        name, _, value = setting.partition("=")
        lines.append(f"export {name}={shlex.quote(value)}")
    return "\n".join(lines + ["exec " + shlex.join(options.command)]) + "\n"


def exit_code(share, machine):
    try:
        code = int((share / "code").read_text())
        if code == TIMED_OUT:
            print("vm: the program ran out of time", file=sys.stderr)
        return code
    except (OSError, ValueError):
        print(f"vm: the machine died while the program ran; its console's last words:\n"
              f"{machine.console()}", file=sys.stderr)
        return DIED


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Machine:
    """A qemu process that ends when the block is left."""

    def __init__(self, kernel, initrd, options, share):
        self.share = share
        self.outputs = [os.pipe(), os.pipe()]
        writers = [pipe[1] for pipe in self.outputs]
        with open(share / "qemu", "wb") as words:
            self.process = subprocess.Popen(
                command_line(kernel, initrd, options, share, writers), stdin=subprocess.DEVNULL,
                stdout=words, stderr=words, pass_fds=writers, preexec_fn=die_with_parent)
        for writer in writers:
            os.close(writer)
        targets = (sys.stdout.buffer, sys.stderr.buffer)
        self.copiers = [threading.Thread(target=copy, args=(pipe[0], target), daemon=True)
                        for pipe, target in zip(self.outputs, targets)]
        for copier in self.copiers:
            copier.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for copier in self.copiers:
            copier.join(timeout=5)

    def wait_for(self, file, seconds):
        end = time.monotonic() + seconds
        while not file.exists():
            if self.process.poll() is not None and not file.exists():
                words = self.console()
                kind = DiedBooting if "Kernel panic" in words else Impossible
                raise kind(f"{QEMU} ended before the system was up: {words}")
            if time.monotonic() > end:
                raise Impossible(f"the system was not up within {seconds} s: {self.console()}")
            time.sleep(0.05)

    def wait_for_end(self, seconds):
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            (self.share / "code").write_text(str(TIMED_OUT))
            print(f"vm: the machine did not stop by itself; its console's last words:\n"
                  f"{self.console()}", file=sys.stderr)
            return
        for copier in self.copiers:
            copier.join(timeout=5)

    def console(self):
        """The last lines of qemu and of the guest's kernel; empty if all is well."""
        lines = []
        for name in ("qemu", "console"):
            file = self.share / name
            if file.exists():
                lines += file.read_text(errors="replace").splitlines()[-50:]
        return "\n".join(lines) or "nothing"


def command_line(kernel, initrd, options, share, writers):
    arguments = [
        QEMU, "-accel", "tcg,thread=multi,tb-size=256",
        "-machine", "q35,hpet=off,smm=off,sata=off,usb=off,vmport=off,i8042=off",
        "-cpu", "max,-la57", "-smp", str(options.cpus), "-m", str(options.memory),
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-kernel", str(kernel.elf), "-initrd", str(initrd), "-append", KERNEL_LINE,
        "-serial", f"file:{share / 'console'}",
        "-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
        "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
        "-fsdev", f"local,id=result,path={share},security_model=none",
        "-device", "virtio-9p-pci,fsdev=result,mount_tag=result",
        "-device", "virtio-serial-pci"]
    for name, writer in zip(("stdout", "stderr"), writers):
        arguments += ["-chardev", f"file,id={name},path=/dev/fd/{writer}",
                      "-device", f"virtserialport,chardev={name},name={name}"]
    return arguments


def copy(reader, target):
    with open(reader, "rb", buffering=0) as source:
        while chunk := source.read(65536):
            target.write(chunk)
            target.flush()
