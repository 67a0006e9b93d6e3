#!/usr/bin/env python3
"""Plots the reliability of the confidence, and the events before and after narrowing.

    plot.py EVENTS TABLE PLOT.svg

EVENTS is the file of `review-answers --events`, TABLE its output.
"""

import collections
import json
import re
import sys

import matplotlib

matplotlib.use("svg")
# The same data give the same file.
matplotlib.rcParams["svg.hashsalt"] = "reviews"
from matplotlib import pyplot  # noqa: E402: the back end is chosen above

BINS = 10


def bins(events, key):
    """Mean confidence, share of true events and number of events of each tenth that has any."""
    by_bin = collections.defaultdict(list)
    for event in events:
        by_bin[min(BINS - 1, int(event[key] * BINS))].append(event)
    found = []
    for _, members in sorted(by_bin.items()):
        confidence = sum(event[key] for event in members) / len(members)
        found.append((confidence, sum(event["is_true"] for event in members) / len(members), len(members)))
    return found


def calibration_error(events, key):
    """Expected calibration error: mean distance of confidence and share of true events."""
    return sum(n * abs(share - confidence) for confidence, share, n in bins(events, key)) / max(1, len(events))


def plot(events, sums, path):
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 4))
    axes[0].plot([0.3, 1], [0.3, 1], color="grey", linewidth=0.5)
    for key, name in (("raw", "evidence alone"), ("calibrated", "calibrated")):
        points = bins(events, key)
        axes[0].plot([p[0] for p in points], [p[1] for p in points], marker="o", markersize=3, label=name)
    axes[0].set_xlabel("confidence of the event")
    axes[0].set_ylabel("share of true events")
    axes[0].legend()
    labels, before, after = [], [], []
    for rule, numbers in sums.items():
        for side, kind in ((0, "true"), (1, "false")):
            labels.append(f"{rule}\n{kind}")
            before.append(numbers[side])
            after.append(numbers[2 + side])
    places = range(len(labels))
    axes[1].bar([p - 0.2 for p in places], before, 0.4, label="before")
    axes[1].bar([p + 0.2 for p in places], after, 0.4, label="narrowed")
    axes[1].set_xticks(list(places), labels)
    axes[1].set_ylabel("events after the answers")
    axes[1].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    with open(sys.argv[1]) as file:
        events = [json.loads(line) for line in file]
    with open(sys.argv[2]) as file:
        found = re.findall(r"^all (\w+): (\d+)/(\d+) become (\d+)/(\d+)", file.read(), re.MULTILINE)
    for rule in sorted({event["rule"] for event in events}):
        members = [event for event in events if event["rule"] == rule]
        raw, calibrated = (calibration_error(members, key) for key in ("raw", "calibrated"))
        print(f"{rule}: {len(members)} events, calibration error {raw:.3f} by evidence alone, {calibrated:.3f} calibrated")
    plot(events, {rule: [int(n) for n in numbers] for rule, *numbers in found}, sys.argv[3])


if __name__ == "__main__":
    main()
