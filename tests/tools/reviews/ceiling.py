#!/usr/bin/env python3
"""Prints how many false crossings any bound could remove, and what it would lose.

    ceiling.py EVENTS

EVENTS is the file of `mot-count IN_DIR --events EVENTS`. Each bound is chosen per sequence in hindsight, on all of its events, so
that it loses the given share of the true ones: no rule that people narrow by their answers can do better with that observation.
`size` is the height of the box against that of true events at the same height of the picture. `all` is a logistic regression of
all observations, and of size and shape, that is fitted on the other sequences.
"""

import collections
import json
import math
import sys

LOST = (0.01, 0.02, 0.05, 0.10, 0.20)
EVIDENCE = ("detector_score", "track_age", "continuity", "box_stability", "motion_agreement", "crossing_depth")
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


def line(points):
    """Slope and offset of the line through these points by least squares."""
    n = len(points)
    x, y = (sum(point[i] for point in points) / n for i in (0, 1))
    spread = sum((a - x) ** 2 for a, _ in points)
    slope = sum((a - x) * (b - y) for a, b in points) / spread if spread else 0.0
    return slope, y - slope * x


def add_shapes(events):
    """Adds how near size and shape of each event are to those of the true ones."""
    true = [values for is_true, values in events if is_true]
    slope, offset = line([(values["foot"], math.log(values["height"])) for values in true])
    usual = sorted(values["shape"] for values in true)[len(true) // 2]
    for _, values in events:
        values["size"] = -abs(math.log(values["height"]) - slope * values["foot"] - offset)
        values["shape"] = -abs(values["shape"] - usual)


def row(values):
    """What the regression sees of an event."""
    numbers = [values.get(name, 0.5) for name in (*EVIDENCE, "size", "shape", "height")]
    return [1.0, *numbers, *(number * number for number in numbers)]


def solve(matrix, right):
    """Solves linear equations by elimination."""
    rows = [[*line, value] for line, value in zip(matrix, right)]
    size = len(rows)
    for i in range(size):
        best = max(range(i, size), key=lambda r: abs(rows[r][i]))
        rows[i], rows[best] = rows[best], rows[i]
        for r in range(i + 1, size):
            factor = rows[r][i] / rows[i][i]
            rows[r] = [a - factor * b for a, b in zip(rows[r], rows[i])]
    found = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(rows[i][c] * found[c] for c in range(i + 1, size))
        found[i] = (rows[i][size] - rest) / rows[i][i]
    return found


def fit(examples):
    """Weights of a logistic regression, by Newton's method with a small prior."""
    size = len(examples[0][1])
    weights = [0.0] * size
    for _ in range(15):
        gradient = [0.1 * weight for weight in weights]
        curvature = [[0.1 * (i == k) for k in range(size)] for i in range(size)]
        for is_true, values in examples:
            score = sum(a * b for a, b in zip(weights, values))
            chance = 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))
            spread = chance * (1 - chance)
            for i, value in enumerate(values):
                gradient[i] += value * (chance - is_true)
                scaled = spread * value
                curvature[i] = [own + scaled * other for own, other in zip(curvature[i], values)]
        weights = [weight - step for weight, step in zip(weights, solve(curvature, gradient))]
    return weights


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
        weights = fit([(is_true, row(values)) for is_true, values in others])
        for _, values in events:
            values["all"] = sum(a * b for a, b in zip(weights, row(values)))
    print("true lost by the bound    " + "".join(f"{lost:8.0%}" for lost in LOST))
    for name in ("confidence", *EVIDENCE, "size", "all"):
        shares = (removed(by_sequence, name, lost) for lost in LOST)
        print(f"{name:26}" + "".join(f"{share:8.0%}" for share in shares))


if __name__ == "__main__":
    main()
