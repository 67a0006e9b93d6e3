#!/usr/bin/env python3
"""Prints how many false crossings any bound could remove, and what it would lose.

    ceiling.py EVENTS

EVENTS is the file of `mot-count IN_DIR --events EVENTS`. Each bound is chosen per sequence in hindsight, on all of its events, so
that it loses the given share of the true ones: no rule that people narrow by their answers can do better with that observation.
`size` is the height of the box against that of true events at the same height of the picture. `all` is a logistic regression of
all observations, and of size and shape, that is fitted on the other sequences.

Needs Python 3.11 with the packages of requirements.txt; `run` installs them and runs this.
"""

import collections
import json
import math
import sys

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

LOST = (0.01, 0.02, 0.05, 0.10, 0.20)
EVIDENCE = ("detector_score", "track_age", "continuity", "box_stability", "motion_agreement", "crossing_depth", "recent_score")
# The last gate: below it there is no event.
GATE = 0.5


def read(path):
    """Events by sequence, true and false ones."""
    by_sequence = collections.defaultdict(list)
    with open(path) as file:
        for event in map(json.loads, file):
            if event["label"] in ("ignored", "missed") or event["confidence"] < GATE:
                continue
            values = {link["source"]: link["confidence"] for link in event["evidence"]}
            x1, y1, x2, y2 = event["box"]
            values |= {"confidence": event["confidence"], "height": y2 - y1, "foot": y2, "shape": math.log((x2 - x1) / (y2 - y1))}
            by_sequence[event["sequence"]].append((event["label"] == "true", values))
    return by_sequence


def add_shapes(events):
    """Adds how near size and shape of each event are to those of the true ones."""
    true = [values for is_true, values in events if is_true]
    slope, offset = np.polyfit([values["foot"] for values in true], [math.log(values["height"]) for values in true], 1)
    usual = sorted(values["shape"] for values in true)[len(true) // 2]
    for _, values in events:
        values["size"] = -abs(math.log(values["height"]) - slope * values["foot"] - offset)
        values["shape"] = -abs(values["shape"] - usual)


def row(values):
    """What the regression sees of an event."""
    numbers = [values.get(name, 0.5) for name in (*EVIDENCE, "size", "shape", "height")]
    return [*numbers, *(number * number for number in numbers)]


def removed(by_sequence, name, lost):
    """Share of the false events below the bound of their sequence."""
    below = count = 0
    for events in by_sequence.values():
        true = sorted(values.get(name, 0.0) for is_true, values in events if is_true)
        false = [values.get(name, 0.0) for is_true, values in events if not is_true]
        bound = true[int(len(true) * lost)]
        below += sum(value < bound for value in false)
        count += len(false)
    return below / count


def main():
    by_sequence = read(sys.argv[1])
    for events in by_sequence.values():
        add_shapes(events)
    for name, events in by_sequence.items():
        others = [event for other, of in by_sequence.items() if other != name for event in of]
        regression = make_pipeline(StandardScaler(), LogisticRegression(C=10.0, max_iter=1000))
        regression.fit([row(values) for _, values in others], [is_true for is_true, _ in others])
        scores = regression.decision_function([row(values) for _, values in events])
        for (_, values), score in zip(events, scores):
            values["all"] = score
    print("true lost by the bound    " + "".join(f"{lost:8.0%}" for lost in LOST))
    for name in ("confidence", *EVIDENCE, "size", "all"):
        shares = (removed(by_sequence, name, lost) for lost in LOST)
        print(f"{name:26}" + "".join(f"{share:8.0%}" for share in shares))


if __name__ == "__main__":
    main()
