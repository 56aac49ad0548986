#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which branches of proto/ storms take, and which they don't take: docs/internals/coverage.md.

    python3 test/coverage/coverage.py [--seeds A..B] [--build FOLDER] [--list] [--page]

Builds `hawser` with HAWSER_COVERAGE in FOLDER (build/coverage), runs the storms of these seeds and
reads gcov's counts. Needs gcovr. Each worker of a swarm adds its counts when it ends; one that
dies adds none.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

import page

ROOT = pathlib.Path(__file__).resolve().parents[2]
# An assertion can't fail, so its branches don't count.
ASSERTION = r".*\bHAWSER_ASSERT\("
ASSERTIONS_FILE = "proto/base/assert.cpp"


def build(folder):
    environment = dict(os.environ, CCACHE_BASEDIR=str(ROOT), CCACHE_NOHASHDIR="1")
    subprocess.run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DHAWSER_COVERAGE=ON"], check=True, env=environment, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, "--quiet", "hawser"], check=True, env=environment)


def run_storms(folder, seeds, jobs):
    for counts in folder.rglob("*.gcda"):
        counts.unlink()
    subprocess.run([folder / "tool/hawser", "storm", "--seeds", seeds, "--jobs", str(jobs), "--keep-going"],
                   check=False)


def read_counts(folder):
    """The counts of each line's branches, by file and by line."""
    if not any(folder.rglob("*.gcda")):
        sys.exit(f"coverage.py: no run has counted anything in {folder}; without --read-only one is made")
    found = subprocess.run(
        ["gcovr", "--root", ROOT, "--filter", "proto/", "--exclude", ASSERTIONS_FILE, "--exclude-throw-branches",
         "--json", "--exclude-branches-by-pattern", ASSERTION, folder / "proto"],
        check=True, capture_output=True, text=True)
    files = {}
    for entry in json.loads(found.stdout)["files"]:
        lines = {line["line_number"]: [branch["count"] for branch in line["branches"]]
                 for line in entry["lines"] if not line["gcovr/noncode"]}
        files[entry["file"]] = {number: counts for number, counts in lines.items() if counts}
    return files


def percent(taken, of):
    return 100.0 * taken / of if of else 100.0


def print_table(files):
    taken_in_all = branches_in_all = 0
    for name in sorted(files):
        counts = [count for line in files[name].values() for count in line]
        taken = sum(count > 0 for count in counts)
        taken_in_all += taken
        branches_in_all += len(counts)
        if counts:
            print(f"{name:34} {taken:5} of {len(counts):5} {percent(taken, len(counts)):6.1f} %")
    print(f"{'all':34} {taken_in_all:5} of {branches_in_all:5} {percent(taken_in_all, branches_in_all):6.1f} %")
    return percent(taken_in_all, branches_in_all)


def print_missing(files):
    for name in sorted(files):
        text = (ROOT / name).read_text().splitlines()
        for number in sorted(files[name]):
            counts = files[name][number]
            missing = sum(count == 0 for count in counts)
            if missing:
                print(f"{name}:{number}: {missing} of {len(counts)}: {text[number - 1].strip()}")


def update_page(files, seeds):
    path = ROOT / "docs/internals/coverage.md"
    commit = subprocess.run(["git", "log", "-1", "--format=%h, %cs"], cwd=ROOT, check=True, capture_output=True,
                            text=True).stdout.strip()
    text, unknown = page.update(path.read_text(), files, ROOT, f"Commit {commit}, seeds {seeds.replace('..', ' to ')}")
    path.write_text(text)
    for name, line, missing in unknown:
        print(f"new under '{page.NEW}': {name}: {missing}: {line}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seeds", default="1..5000")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments.add_argument("--build", type=pathlib.Path, default=ROOT / "build/coverage")
    arguments.add_argument("--list", action="store_true", help="the branches that were not taken, too")
    arguments.add_argument("--page", action="store_true",
                           help="bring docs/internals/coverage.md up to this run")
    arguments.add_argument("--read-only", action="store_true", help="what an earlier run counted")
    arguments.add_argument("--least", type=float, default=0, help="fail below so many percent")
    options = arguments.parse_args()
    if not options.read_only:
        build(options.build)
        run_storms(options.build, options.seeds, options.jobs)
    files = read_counts(options.build)
    if options.list:
        print_missing(files)
    if options.page:
        update_page(files, options.seeds)
    return 0 if print_table(files) >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
