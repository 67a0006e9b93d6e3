#!/usr/bin/env python3
"""Tells what the wrong crossing events are, and how well other observations or weights separate true from wrong ones.

    limits.py IN_DIR TRACKS EVENTS

TRACKS is the folder that mot-track wrote, EVENTS the output of `mot-count --events`. A fitted variant scores each sequence by a fit on
the others.
"""

import collections
import json
import math
import os
import sys

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# Seconds within which two events may be of one crossing.
NEAR_S = 2.0
OBSERVATIONS = ("detector_score", "track_age", "continuity", "box_stability", "motion_agreement", "crossing_depth", "recent_score")
WEIGHT = 0.3
# Default gate of `record`, and the share of the true events that are below it.
RECORD = 0.85
TRUE_BELOW = 0.1


def iou(a, b):
    w, h = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if w <= 0 or h <= 0:
        return 0.0
    return w * h / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - w * h)


def rows(path):
    with open(path) as file:
        for line in file:
            frame, id, x, y, w, h, *rest = (float(v) for v in line.split(","))
            yield int(frame) - 1, int(id), (x, y, x + w, y + h), rest


class Sequence:
    def __init__(self, in_dir, tracks, name):
        folder = os.path.join(in_dir, name)
        with open(os.path.join(folder, "seqinfo.json")) as file:
            self.fps = json.load(file)["fps"]
        self.tracks, self.found, self.by_frame = (collections.defaultdict(kind) for kind in (dict, list, list))
        for frame, _, box, (score, *_) in rows(os.path.join(folder, "det.txt")):
            self.found[frame].append((box, score))
        for frame, id, box, _ in rows(os.path.join(tracks, name + ".txt")):
            self.tracks[id][frame] = box
            self.by_frame[frame].append((id, box))

    def score(self, frame, box):
        """Score of the detection that a track's box is."""
        return max(self.found[frame], key=lambda found: iou(found[0], box))[1]


def across(ends, box, anchor=(0.5, 1.0)):
    """Distance of a point of the box from the line, negative on the side `in`, in extents."""
    (x1, y1), (x2, y2) = ends
    w, h = box[2] - box[0], box[3] - box[1]
    x, y = box[0] + anchor[0] * w - x1, box[1] + anchor[1] * h - y1
    return ((x2 - x1) * y - (y2 - y1) * x) / (abs(y2 - y1) * w + abs(x2 - x1) * h)


def cause(event, others, fps):
    """What a wrong event is."""
    if event["label"] == "ghost":
        return "no annotated object is there"
    for other in others:
        is_same = other["label"] == "true" and all(other[key] == event[key] for key in ("line", "in", "object"))
        if is_same and abs(other["frame"] - event["frame"]) <= NEAR_S * fps:
            return "the same crossing a second time"
    return "the box crosses, the annotated one does not"


def agreement(sequence, event):
    """Share of foot, centre and lower corners that changed to this side within 1.3 s, times the steadiness of the lower edge."""
    track = sequence.tracks[event["track"]]
    boxes = [track[f] for f in sorted(track) if event["latest"] - 1.3 * sequence.fps <= f <= event["latest"]]
    sides = [[across(event["ends"], b, a) < 0 for b in boxes] for a in ((0.5, 1), (0.5, 0.5), (0, 1), (1, 1))]
    share = sum(s[-1] == event["in"] and (not event["in"]) in s for s in sides) / len(sides)
    jumps = [abs(b[3] - a[3]) / (b[3] - b[1]) for a, b in zip(boxes, boxes[1:])]
    return share * math.exp(-4 * max(jumps, default=0))


def straightness(sequence, event):
    """Share of the way of the foot across the line that is left after ways back, in the last second."""
    track = sequence.tracks[event["track"]]
    way = [across(event["ends"], track[f]) for f in sorted(track) if event["latest"] - sequence.fps <= f <= event["latest"]]
    length = sum(abs(b - a) for a, b in zip(way, way[1:]))
    return abs(way[-1] - way[0]) / length if length else 0


def is_repeated(sequence, event, others):
    """Whether another track crossed there so, a moment before."""
    before = [o for o in others if o["track"] != event["track"] and 0 <= event["frame"] - o["frame"] <= NEAR_S * sequence.fps]
    near = [o for o in before if all(o[key] == event[key] for key in ("line", "in")) and iou(o["box"], event["box"]) > 0]
    return bool(near)


def more(sequence, event, others):
    """Further observations, as confidences."""
    track, latest = sequence.tracks[event["track"]], event["latest"]
    box = track[latest]
    lately = [sequence.score(f, b) for f, b in track.items() if latest - sequence.fps / 2 < f <= latest]
    sign = 1 if event["in"] else -1
    before = max(sign * across(event["ends"], b) for f, b in track.items() if f <= latest)
    overlap = max((iou(box, b) for id, b in sequence.by_frame[latest] if id != event["track"]), default=0)
    return {
        "foot, centre and both lower corners cross within 1.3 s, the lower edge without a jump": agreement(sequence, event),
        "depth over the track's life": 1 - 0.5 ** (max(before, 0) / 0.2),
        "score at the crossing": sequence.score(latest, box) ** 0.5,
        "least score in half a second": min(lately) ** 0.5,
        "no overlap with another box": 1 - overlap,
        "a straight way in the last second": straightness(sequence, event),
        "no other event there in two seconds": 1 - is_repeated(sequence, event, others),
    }


def report(name, labels, scores):
    """Prints the area, and the share of wrong events below the gate that TRUE_BELOW of the true ones are below."""
    true, wrong = scores[labels], scores[~labels]
    below = (wrong < np.quantile(true, TRUE_BELOW)).mean()
    print(f"| {name} | {roc_auc_score(labels, scores):.2f} | {100 * below:.0f} % |")


def held_out(model, columns, sequences, labels):
    scores = np.zeros(len(labels))
    for name in np.unique(sequences):
        rest = sequences != name
        model.fit(columns[rest], labels[rest])
        scores[~rest] = model.predict_proba(columns[~rest])[:, 1]
    return scores


def read(in_dir, tracks, path):
    """The events with their causes, the further observations and the sequences, in one order."""
    by_sequence = collections.defaultdict(list)
    with open(path) as file:
        for event in map(json.loads, file):
            if event["label"] not in ("ignored", "missed"):
                by_sequence[event["sequence"]].append(event)
    all_of_them, extra = [], []
    for name, events in by_sequence.items():
        sequence = Sequence(in_dir, tracks, name)
        for event in events:
            event["latest"] = max(f for f in sequence.tracks[event["track"]] if f <= event["frame"])
            event["cause"] = cause(event, events, sequence.fps)
            extra.append(more(sequence, event, events))
        all_of_them += events
    return all_of_them, extra


def main():
    events, extra = read(*sys.argv[1:])
    wrong = [event for event in events if event["label"] != "true"]
    causes = collections.Counter(event["cause"] for event in wrong)
    below = collections.Counter(event["cause"] for event in wrong if event["confidence"] < RECORD)
    print("\n| events | below the gate | cause |\n|---|---|---|")
    for name, number in causes.most_common():
        print(f"| {number} | {100 * below[name] / number:.0f} % | {name} |")

    labels = np.array([event["label"] == "true" for event in events])
    sequences = np.array([event["sequence"] for event in events])
    found = [{o["source"]: (o["confidence"], o["weight"]) for o in event["evidence"]} for event in events]
    # Not each event has all observations.
    seven = np.array([[one[name][0] if name in one else np.nan for name in OBSERVATIONS] for one in found])

    def weighted(left_out=(), more=0, weight=0):
        pairs = [[pair for name, pair in one.items() if name not in left_out] for one in found]
        sums = np.array([[sum(c * w for c, w in one), sum(w for _, w in one)] for one in pairs])
        return (sums[:, 0] + weight * more) / (sums[:, 1] + weight)

    values = {name: np.array([one[name] for one in extra]) for name in extra[0]}
    print("\n| variant | area | wrong ones below |\n|---|---|---|")
    report("these weights", labels, weighted())
    for name in OBSERVATIONS:
        report(f"… without `{name}`", labels, weighted(left_out=(name,)))
    for name, value in values.items():
        report(f"… and {name}", labels, weighted(more=value, weight=WEIGHT))
    for name, columns in (("seven", seven), ("all fourteen", np.column_stack([seven, *values.values()]))):
        fill = SimpleImputer(add_indicator=True)
        line = make_pipeline(fill, StandardScaler(), LogisticRegression(class_weight="balanced"))
        report(f"logistic regression, {name}", labels, held_out(line, columns, sequences, labels))
        forest = make_pipeline(fill, RandomForestClassifier(100, min_samples_leaf=5, class_weight="balanced", random_state=1))
        report(f"random forest, {name}", labels, held_out(forest, columns, sequences, labels))


if __name__ == "__main__":
    main()
