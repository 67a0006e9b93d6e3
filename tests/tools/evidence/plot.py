#!/usr/bin/env python3
"""Tells how the evidence of crossing events separates true from wrong ones, and plots the verdicts on both.

    plot.py EVENTS PLOT.svg

EVENTS is the output of `mot-count --events`. Events on objects that the annotation leaves out, and missed crossings, are not
counted.
"""

import collections
import json
import sys

import matplotlib

matplotlib.use("svg")
# The same data give the same file.
matplotlib.rcParams["svg.hashsalt"] = "evidence"
from matplotlib import pyplot  # noqa: E402: the back end is chosen above

GATES = {"escalate": 0.50, "review": 0.70, "record": 0.85, "act": 0.90}


def area(true, wrong):
    """Probability that a true crossing has more than a wrong one; ties count half."""
    pairs = sum((t > w) + 0.5 * (t == w) for t in true for w in wrong)
    return pairs / max(1, len(true) * len(wrong))


def table(events):
    """Prints what each observation tells, and returns the confidences of true and of wrong crossings."""
    by_source = collections.defaultdict(lambda: ([], []))
    for event in events:
        side = event["label"] != "true"
        by_source["all, weighted"][side].append(event["confidence"])
        for observation in event["evidence"]:
            by_source[observation["source"]][side].append(observation["confidence"])
    print("\n| observation | true | wrong | area under the ROC curve |\n|---|---|---|---|")
    for source, (true, wrong) in by_source.items():
        print(f"| {source} | {len(true)} | {len(wrong)} | {area(true, wrong):.2f} |")
    return by_source["all, weighted"]


def plot(confidences, path):
    figure, axes = pyplot.subplots(figsize=(6, 3))
    edges = [0, *GATES.values(), 1.01]
    for side, (name, values) in enumerate(zip(("true", "wrong"), confidences)):
        shares = [100 * sum(low <= v < high for v in values) / len(values) for low, high in zip(edges, edges[1:])]
        axes.bar([n + 0.4 * side - 0.2 for n in range(len(shares))], shares, 0.4, label=f"{name} ({len(values)})")
    axes.set_xticks(range(len(edges) - 1), ["discard", *GATES])
    axes.set_ylabel("% of the crossing events")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    with open(sys.argv[1]) as file:
        events = [json.loads(line) for line in file]
    confidences = table([event for event in events if event["label"] not in ("ignored", "missed")])
    for name, values in zip(("true", "wrong"), confidences):
        accepted = sum(value >= GATES["record"] for value in values)
        print(f"{name}: {accepted} of {len(values)} are record or act, {100 * accepted / max(1, len(values)):.0f} %")
    plot(confidences, sys.argv[2])


if __name__ == "__main__":
    main()
