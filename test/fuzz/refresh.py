#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refreshes the corpora in test/fuzz/corpus: refresh.py [--seconds N] [--only FUZZER] [--build FOLDER]

Each fuzzer runs for N seconds (300) on the inputs it has found so far (FOLDER/corpus) and on the
kept ones. Of all these, the script keeps the inputs that together cover most of the program. It
picks them by libFuzzer's features, the input with the most new ones first, up to MOST_FILES files
and MOST_BYTES bytes. Without a folder it uses the build of ./build.sh fuzz.
"""

import argparse
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MOST_FILES = 120
MOST_BYTES = 60_000
FLAGS = ["-entropic=0", "-timeout=10", "-rss_limit_mb=2048", "-verbosity=0"]


def without_random_addresses():
    """The sanitizers lose their shadow memory if addresses are randomized by many bits."""
    probe = subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False)
    return ["setarch", "-R"] if probe.returncode == 0 else []


def features_of(program, folders, work):
    """The features of every input, as (path, set of features)."""
    control = os.path.join(work, "control")
    merged = os.path.join(work, "merged")
    os.makedirs(merged, exist_ok=True)
    subprocess.run(without_random_addresses() + [program] + FLAGS +
                   ["-set_cover_merge=1", f"-merge_control_file={control}", merged] + folders,
                   check=True, capture_output=True)
    with open(control, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    count = int(lines[0])
    names = lines[2:2 + count]
    features = {}
    for line in lines[2 + count:]:
        words = line.split()
        if words and words[0] == "FT":
            features.setdefault(int(words[1]), set()).update(words[2:])
    return [(names[i], features.get(i, set())) for i in range(count)]


def choose(inputs):
    """Chooses the inputs to keep: greedily by new features, and the shorter one of equals."""
    chosen, covered, left, size = [], set(), list(inputs), 0
    while left and len(chosen) < MOST_FILES:
        best = max(left, key=lambda i: (len(i[1] - covered), -os.path.getsize(i[0])))
        left.remove(best)
        gain = len(best[1] - covered)
        if gain == 0:
            break
        if size + os.path.getsize(best[0]) > MOST_BYTES:
            continue
        chosen.append(best[0])
        covered |= best[1]
        size += os.path.getsize(best[0])
    everything = set().union(*(features for _, features in inputs)) if inputs else set()
    return chosen, len(covered), len(everything), size


def refresh(name, build, seconds):
    program = glob.glob(os.path.join(build, "test", "**", name), recursive=True)[0]
    found = os.path.join(build, "corpus", name)
    kept = os.path.join(HERE, "corpus", name)
    os.makedirs(found, exist_ok=True)
    os.makedirs(kept, exist_ok=True)
    if seconds > 0:
        dictionary = os.path.join(HERE, name + ".dict")
        flags = [f"-dict={dictionary}"] if os.path.exists(dictionary) else []
        subprocess.run(without_random_addresses() + [program] + FLAGS + flags +
                       [f"-max_total_time={seconds}", f"-artifact_prefix={build}/{name}-",
                        found, kept], check=True, capture_output=True)
    with tempfile.TemporaryDirectory() as work:
        chosen, covered, all_of_them, size = choose(features_of(program, [found, kept], work))
        new = {}
        for path in chosen:
            with open(path, "rb") as file:
                content = file.read()
            new[hashlib.sha1(content).hexdigest()[:16]] = content
    shutil.rmtree(kept)
    os.makedirs(kept)
    for digest, content in new.items():
        with open(os.path.join(kept, digest), "wb") as file:
            file.write(content)
    print(f"{name:18} {len(new):4} files {size:7} bytes, {covered} of {all_of_them} features",
          flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--only", metavar="FUZZER")
    parser.add_argument("--build", metavar="FOLDER")
    options = parser.parse_args()
    build = options.build or os.path.join(ROOT, "build", "fuzz")
    if options.build is None:
        subprocess.run([os.path.join(ROOT, "build.sh"), "fuzz"], check=True)
    with open(os.path.join(build, "fuzzers.txt"), encoding="utf-8") as file:
        fuzzers = re.findall(r"\w+", file.read())
    for name in fuzzers:
        if options.only in (None, name):
            refresh(name, build, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
