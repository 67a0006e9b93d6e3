#!/usr/bin/env python3
"""Tells what the wrong crossing events are, and how well other observations or weights separate true from wrong ones.

    limits.py IN_DIR TRACKS EVENTS

TRACKS is the folder that mot-track wrote, EVENTS the output of `mot-count --events`. Each variant is fitted on two of MOT15, MOT17
and KITTI and scored on the third.
"""

import collections
import json
import math
import os
import sys

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

SAME, NEAR, BAND, NEAR_S = 0.3, 0.1, 0.1, 2.0
SETS = ("MOT15", "MOT17", "KITTI")
OBSERVATIONS = ("detector_score", "track_age", "continuity", "box_stability", "motion_agreement", "crossing_depth")
WEIGHT = 0.3
# Share of the true events that the default gates put below `record`.
TRUE_BELOW = 0.09


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
            self.info = json.load(file)
        self.fps, self.set = self.info["fps"], self.info["set"].split("-")[0]
        self.truth, self.tracks = collections.defaultdict(dict), collections.defaultdict(dict)
        self.by_frame = collections.defaultdict(list)
        for frame, id, box, (consider, kind, *_) in rows(os.path.join(folder, "gt.txt")):
            if consider and kind == 1:
                self.truth[id][frame] = box
        scores = {(frame, tuple(round(v) for v in box)): rest[0] for frame, _, box, rest in rows(os.path.join(folder, "det.txt"))}
        for frame, id, box, _ in rows(os.path.join(tracks, name + ".txt")):
            self.tracks[id][frame] = (*box, scores.get((frame, tuple(round(v) for v in box)), 0.5))
            self.by_frame[frame].append((id, box))

    def across(self, line, box, anchor=(0.5, 1.0)):
        """Distance of a point of the box from the line, negative on the side `in`, in extents."""
        kind, number = line.rstrip("0123456789"), int(line.lstrip("abcdefghijklmnopqrstuvwxyz"))
        w, h = box[2] - box[0], box[3] - box[1]
        if kind == "upright":
            return (round(self.info["width"] * number / 8) - box[0] - anchor[0] * w) / w
        return (box[1] + anchor[1] * h - round(self.info["height"] * number / 7)) / h

    def crossings(self, line):
        """Crossings of the annotated feet: whether to the side `in`, object, frame."""
        for id, path in self.truth.items():
            before = None
            for frame, box in sorted(path.items()):
                away = self.across(line, box)
                if before is not None and abs(away) >= BAND and before != (away < 0):
                    yield away < 0, id, frame
                if before is None or abs(away) >= BAND:
                    before = away < 0


def join(sequence, events):
    """Adds to the events of a sequence the box that they show, their side, and the annotated objects of their track."""
    for event in events:
        track, frame = sequence.tracks[event["track"]], event["frame"]
        event["shown"] = max(f for f in track if f <= frame)
        event["box"] = track[event["shown"]]
        event["in"] = sequence.across(event["line"], event["box"]) < 0
        event["objects"] = collections.Counter()
        for f, box in track.items():
            if f <= frame + NEAR_S * sequence.fps:
                fitting = (id for id, path in sequence.truth.items() if f in path and iou(path[f], box) >= SAME)
                event["objects"].update((id, f >= frame - NEAR_S * sequence.fps) for id in fitting)


def name_causes(sequence, events):
    """Sets the cause of each wrong event: the first that applies."""
    for line in {event["line"] for event in events}:
        here, free = [e for e in events if e["line"] == line], list(sequence.crossings(line))
        used = []
        for event in sorted(here, key=lambda e: e["label"] != "true"):
            lately = {id for id, is_late in event["objects"] if is_late}
            limit = NEAR_S * sequence.fps
            fits = [c for c in free if c[1] in lately and c[0] == event["in"] and abs(c[2] - event["frame"]) <= limit]
            if fits:
                crossing = min(fits, key=lambda c: abs(c[2] - event["frame"]))
                free.remove(crossing)
                used.append(crossing)
            event["cause"] = "true" if event["label"] == "true" else cause(sequence, event, bool(fits), used, lately)


def cause(sequence, event, is_unmatched, used, lately):
    boxes = [path[event["shown"]] for path in sequence.truth.values() if event["shown"] in path]
    seen = collections.Counter()
    for (id, _), n in event["objects"].items():
        seen[id] += n
    if is_unmatched:
        return "the object crosses there, and no event is matched to it"
    if not any(o["source"] == "crossing_depth" for o in event["evidence"]):
        return "the object came or went on the line at the border"
    if all(iou(box, event["box"]) < NEAR for box in boxes):
        return "nobody is annotated there"
    near = NEAR_S * sequence.fps
    if any(c[1] in lately and c[0] == event["in"] and abs(c[2] - event["frame"]) <= near for c in used):
        return "the same crossing a second time"
    if seen and max(seen.values()) < 0.9 * sum(seen.values()):
        return "the track was on another object before"
    return "the box crosses, the annotated one does not"


def agreement(sequence, event):
    """Share of foot, centre and lower corners that changed to this side within 1.3 s, times the steadiness of the lower edge."""
    track = sequence.tracks[event["track"]]
    boxes = [track[f] for f in sorted(track) if event["shown"] - 1.3 * sequence.fps <= f <= event["shown"]]
    sides = [[sequence.across(event["line"], b, a) < 0 for b in boxes] for a in ((0.5, 1), (0.5, 0.5), (0, 1), (1, 1))]
    share = sum(s[-1] == event["in"] and (not event["in"]) in s for s in sides) / len(sides)
    jumps = [abs(b[3] - a[3]) / (b[3] - b[1]) for a, b in zip(boxes, boxes[1:])]
    return share * math.exp(-4 * max(jumps, default=0))


def more(sequence, event):
    """Further observations, as confidences."""
    track, shown = sequence.tracks[event["track"]], event["shown"]
    lately = [box for f, box in track.items() if shown - sequence.fps / 2 < f <= shown]
    sign = 1 if event["in"] else -1
    before = max(sign * sequence.across(event["line"], box) for f, box in track.items() if f <= shown)
    overlap = max((iou(event["box"], box) for id, box in sequence.by_frame[shown] if id != event["track"]), default=0)
    return {
        "foot, centre and corners agree": agreement(sequence, event),
        "depth over the track's life": 1 - 0.5 ** (max(before, 0) / 0.2),
        "score at the crossing": event["box"][4] ** 0.5,
        "least score in half a second": min(box[4] for box in lately) ** 0.5,
        "no overlap with another box": 1 - overlap,
    }


def report(name, sets, labels, scores):
    """Prints the area of each set, and the share of wrong events below the gate that 9 % of the true ones of their set are below."""
    areas, below = [], 0
    for held_out in SETS:
        true, wrong = scores[(sets == held_out) & labels], scores[(sets == held_out) & ~labels]
        areas.append(roc_auc_score([1] * len(true) + [0] * len(wrong), [*true, *wrong]))
        below += (wrong < np.quantile(true, TRUE_BELOW)).sum()
    print(f"| {name} | {' | '.join(f'{area:.2f}' for area in areas)} | {100 * below / (~labels).sum():.0f} % |")


def held_out(model, columns, sets, labels):
    scores = np.zeros(len(labels))
    for name in SETS:
        model.fit(columns[sets != name], labels[sets != name])
        scores[sets == name] = model.predict_proba(columns[sets == name])[:, 1]
    return scores


def main():
    in_dir, tracks, path = sys.argv[1:]
    with open(path) as file:
        events = [event for event in map(json.loads, file) if event["label"] != "ignored"]
    extra, sets = [], []
    by_sequence = collections.defaultdict(list)
    for event in events:
        by_sequence[event["sequence"]].append(event)
    events = []
    for name, own in by_sequence.items():
        sequence = Sequence(in_dir, tracks, name)
        join(sequence, own)
        name_causes(sequence, own)
        extra += [more(sequence, event) for event in own]
        sets += [sequence.set] * len(own)
        events += own
    causes = collections.Counter(event["cause"] for event in events if event["label"] != "true")
    print("\n| wrong events | cause, the first that applies |\n|---|---|")
    for name, number in causes.most_common():
        print(f"| {number} | {name} |")

    sets, labels = np.array(sets), np.array([event["label"] == "true" for event in events])
    found = [{o["source"]: (o["confidence"], o["weight"]) for o in event["evidence"]} for event in events]
    six = np.array([[one.get(name, (0.8,))[0] for name in OBSERVATIONS] for one in found])
    sums = np.array([[sum(c * w for c, w in one.values()), sum(w for _, w in one.values())] for one in found])
    values = {name: np.array([one[name] for one in extra]) for name in extra[0]}
    print(f"\n| variant | {' | '.join(SETS)} | wrong ones below |\n|---|---|---|---|---|")
    report("these weights", sets, labels, sums[:, 0] / sums[:, 1])
    for name, value in values.items():
        report(f"… and {name}", sets, labels, (sums[:, 0] + WEIGHT * value) / (sums[:, 1] + WEIGHT))
    all_of_them = np.column_stack([six, *values.values()])
    for name, columns in (("six", six), (f"{all_of_them.shape[1]}", all_of_them)):
        line = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced"))
        report(f"logistic regression, {name}", sets, labels, held_out(line, columns, sets, labels))
        forest = RandomForestClassifier(400, min_samples_leaf=5, class_weight="balanced", random_state=1)
        report(f"random forest, {name}", sets, labels, held_out(forest, columns, sets, labels))


if __name__ == "__main__":
    main()
