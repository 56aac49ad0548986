# SPDX-License-Identifier: Apache-2.0
"""The reason why there can't be an emulated machine here."""

import subprocess


class Impossible(Exception):
    """Its text is one sentence that also says what to do about it."""


def call(command, seconds, **options):
    """Runs a tool of the host to its end; returns its output. Impossible if it fails."""
    try:
        done = subprocess.run(command, timeout=seconds, capture_output=True, check=False, **options)
    except FileNotFoundError:
        raise Impossible(f"{command[0]} is not installed; ./setup.sh vm installs it") from None
    except subprocess.TimeoutExpired:
        raise Impossible(f"{' '.join(command)} took more than {seconds} s") from None
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise Impossible(f"{' '.join(command)} failed: {' '.join(words) or done.returncode}")
    return done.stdout
