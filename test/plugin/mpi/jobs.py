# SPDX-License-Identifier: Apache-2.0
"""MPI jobs of the tests: Open MPI over the provider, or over its own TCP.

A script sets FOLDERS["provider"] to the folder of the provider before it runs a job.
"""

import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tool"))
from cases import check, time_left  # pylint: disable=wrong-import-position

NICS = "udp:127.0.0.1,udp:127.0.0.2"
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
TCP = ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]
OFI = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "btl", "self",
       "--mca", "opal_common_ofi_provider_include", "hawser"]

# Windows over the provider's one-sided operations, and over messages of Open MPI's own.
OFI_WINDOWS = OFI[:-6] + ["--mca", "btl", "self,ofi", "--mca", "osc", "rdma"] + OFI[-3:]
TCP_WINDOWS = TCP + ["--mca", "osc", "pt2pt"]

FOLDERS = {}


def run(ranks, transport, program, environment, may_fail=False):
    """The job's standard output and error. With `may_fail` any exit status will do."""
    exported = [word for name in environment for word in ("-x", name)]
    command = MPIRUN + ["-n", str(ranks)] + transport + exported + program
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        # In a session of its own the whole job can be ended by its group, whatever happens.
        job = subprocess.Popen(command, stdout=output, stderr=errors, start_new_session=True,
                               env={**os.environ, **environment})
        try:
            code = job.wait(timeout=time_left())
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGTERM)  # mpirun ends its ranks
            try:
                job.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
            code = "no end"
        output.seek(0)
        errors.seek(0)
        out, err = output.read().decode(errors="replace"), errors.read().decode(errors="replace")
    check(code == 0 or (may_fail and code != "no end"),
          f"{' '.join(command)}\nends with {code}\n{out[-2000:]}\n{err[-4000:]}")
    return out, err


def over_hawser(ranks, program, more=None, may_fail=False, transport=None):
    environment = {"FI_PROVIDER_PATH": FOLDERS["provider"], "FI_HAWSER_NICS": NICS, "FI_HAWSER_STATS": "1",
                   **(more or {})}
    return run(ranks, transport or OFI, program, environment, may_fail)
