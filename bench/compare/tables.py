#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Markdown tables of what `bench/compare --json FILE` wrote: ratios first. Usage: tables.py FILE [--undisturbed]

--undisturbed: use only samples in which the processes hardly waited for their cores. Rounds have then lost some samples, so ratios are
those of the medians."""

import json
import statistics
import sys

MOST_DISTURBANCE = 0.05


def size(count):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor and count % factor == 0:
            return f"{count // factor} {unit}"
    return f"{count} B"


def figure(point, sample):
    """MB/s of a stream, microseconds of a round trip."""
    if point["kind"] == "stream":
        return 1e-6 * sample["count"] * point["bytes"] / sample["seconds"]
    return 1e6 * sample["seconds"] / sample["count"]


def cpu_us(sample):
    return 1e6 * (sample["client_cpu_seconds"] + sample["server_cpu_seconds"]) / sample["count"]


class Points:
    def __init__(self, document, undisturbed=False):
        self.document, self.undisturbed = document, undisturbed
        if undisturbed:
            for point in document["points"]:
                point["samples"] = [s for s in point["samples"] if s["disturbance"] <= MOST_DISTURBANCE]
        self.by_key = {(p["loss"], p["kind"], p["bytes"], p["transport"]): p for p in document["points"] if p["samples"]}
        self.transports = [t for t in document["transports"] if any(key[3] == t for key in self.by_key)]

    def sizes(self, loss, kind):
        return sorted({key[2] for key in self.by_key if key[:2] == (loss, kind)})

    def values(self, key, value=figure):
        point = self.by_key.get(key)
        return [value(point, s) if value is figure else value(s) for s in point["samples"]] if point else []

    def median(self, key, value=figure):
        values = self.values(key, value)
        return statistics.median(values) if values else None

    def ratio(self, above, below, value=figure):
        """The median of the rounds' ratios, with the first and the third quartile."""
        if self.undisturbed:
            medians = self.median(above, value), self.median(below, value)
            return None if None in medians else medians[0] / medians[1]
        ratios = [a / b for a, b in zip(self.values(above, value), self.values(below, value)) if b > 0]
        if not ratios:
            return None
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        return low, middle, high


def short(number):
    return "-" if number is None else f"{number:.3g}" if number < 100 else f"{number:.0f}"


def told(triple):
    if isinstance(triple, float):
        return f"{triple:.2f}"
    return "-" if triple is None else f"{triple[1]:.2f} ({triple[0]:.2f}-{triple[2]:.2f})"


def table(points, loss, kind, title, cell, transports):
    transports = [t for t in transports if any(key[:2] == (loss, kind) and key[3] == t for key in points.by_key)]
    if not transports:
        return
    yield from ("", title, "", f"| | {' | '.join(transports)} |", "|---" * (1 + len(transports)) + "|")
    for count in points.sizes(loss, kind):
        yield f"| {size(count)} | {' | '.join(cell((loss, kind, count, transport)) for transport in transports)} |"


def tables(document, undisturbed=False):
    points = Points(document, undisturbed)
    spread = "" if undisturbed else ", median and quartiles of the rounds"
    own, others = points.transports[0], points.transports[1:]
    for name, reason in document["left_out"].items():
        yield f"Left out: {name}: {reason}"
    disturbances = [s["disturbance"] for p in document["points"] for s in p["samples"]]
    if disturbances:
        how_many = sorted(len(p["samples"]) for p in document["points"])
        yield f"{how_many[0]} to {how_many[-1]} samples a point. Waiting for cores that ran something else: {100 * statistics.median(disturbances):.1f}% of the median sample's time."
    for loss in document["losses"]:
        lost = f", {100 * loss:g}% of the packets lost" if loss else ""
        for kind, unit, operation in (("stream", "MB/s", "message"), ("ping", "us", "round trip")):
            what = f"{'Stream' if kind == 'stream' else 'Round trip'}{lost}"
            yield from table(points, loss, kind, f"{what}: {own}'s figure by the column's{spread}",
                             lambda key: told(points.ratio((*key[:3], own), key)), others)
            yield from table(points, loss, kind, f"{what}: {own}'s processor time by the column's",
                             lambda key: told(points.ratio((*key[:3], own), key, cpu_us)), others)
            yield from table(points, loss, kind, f"{what}: {unit}; processor time of both processes in us a {operation}",
                             lambda key: f"{short(points.median(key))}; {short(points.median(key, cpu_us))}", points.transports)
            if loss:
                yield from table(points, loss, kind, f"{what}: of the transport's own figure without",
                                 lambda key: told(points.ratio(key, (0, *key[1:]))), points.transports)
    for point in document["failed"]:
        yield f"\n{point['transport']} ended at {point['kind']} of {size(point['bytes'])}, loss {point['loss']:g}: {point['reason']}"


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--undisturbed"]):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(tables(json.load(file), len(sys.argv) == 3)))
