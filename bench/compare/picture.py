#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `bench/compare --json FILE` wrote: rate over size, and round trips, a row for each loss.

Usage: picture.py FILE PICTURE.svg (or .png). Lines are medians, bands go from the first to the third quartile. Needs matplotlib
(Debian: python3-matplotlib).
"""

import json
import os
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tables import Points, size  # noqa: E402


def draw(axes, points, loss, kind):
    for number, transport in enumerate(points.transports):
        sizes = [s for s in points.sizes(loss, kind) if (loss, kind, s, transport) in points.by_key]
        samples = [points.values((loss, kind, s, transport)) for s in sizes]
        if not sizes:
            continue
        bands = [statistics.quantiles(v, n=4, method="inclusive") if len(v) > 1 else v * 3 for v in samples]
        color = f"C{number}"
        axes.plot(sizes, [band[1] for band in bands], "o-", color=color, label=transport, markersize=3,
                  linewidth=2.5 if number == 0 else 1.2)
        axes.fill_between(sizes, [band[0] for band in bands], [band[2] for band in bands], color=color, alpha=0.12, linewidth=0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(points.sizes(loss, kind), [size(s) for s in points.sizes(loss, kind)])
    axes.minorticks_off()
    axes.grid(True, which="major", alpha=0.3)
    lost = f", {100 * loss:g}% of the packets lost" if loss else ""
    axes.set_title(("stream" if kind == "stream" else "round trip") + lost)
    axes.set_ylabel("MB/s" if kind == "stream" else "us")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        import matplotlib
    except ImportError:
        sys.exit("picture.py: matplotlib is missing: install python3-matplotlib (./setup.sh compare)")
    matplotlib.use("Agg")
    from matplotlib import pyplot
    with open(sys.argv[1], encoding="utf-8") as file:
        points = Points(json.load(file))
    losses = points.document["losses"]
    figure, rows = pyplot.subplots(len(losses), 2, figsize=(13, 5 * len(losses)), squeeze=False,
                                   gridspec_kw={"width_ratios": [2, 1]})
    for loss, row in zip(losses, rows):
        draw(row[0], points, loss, "stream")
        draw(row[1], points, loss, "ping")
    rows[0][0].legend(ncols=3, fontsize=8)
    figure.tight_layout()
    figure.savefig(sys.argv[2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
