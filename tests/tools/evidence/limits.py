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
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# Least overlap of the boxes of one object, greatest overlap of a box with nothing annotated, and seconds around an event.
SAME, NOTHING, NEAR_S = 0.3, 0.1, 2.0
SETS = ("MOT15", "MOT17", "KITTI")
OBSERVATIONS = ("detector_score", "track_age", "continuity", "box_stability", "motion_agreement", "crossing_depth")
WEIGHT = 0.3
# Default gate of `record`, and the share of the true events that are below it.
RECORD = 0.85
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
            info = json.load(file)
        self.fps, self.set = info["fps"], info["set"].split("-")[0]
        self.truth, self.tracks = collections.defaultdict(dict), collections.defaultdict(dict)
        self.found, self.by_frame = collections.defaultdict(list), collections.defaultdict(list)
        for frame, id, box, (consider, kind, *_) in rows(os.path.join(folder, "gt.txt")):
            if consider and kind == 1:
                self.truth[id][frame] = box
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


def add_objects(sequence, event):
    """Adds the frame of the track's latest box, and the annotated objects of the track: by whether they were there lately."""
    track, frame, limit = sequence.tracks[event["track"]], event["frame"], NEAR_S * sequence.fps
    event["latest"] = max(f for f in track if f <= frame)
    event["objects"] = collections.Counter()
    for f, box in track.items():
        if f <= frame + limit:
            fitting = (id for id, path in sequence.truth.items() if f in path and iou(path[f], box) >= SAME)
            event["objects"].update((id, f >= frame - limit) for id in fitting)


def name_causes(sequence, events, missed):
    """Sets the cause of each wrong event: the first that applies."""
    used = [event for event in events if event["label"] == "true"]
    free = list(missed)
    for event in events:
        if event["label"] != "true":
            near = [crossing for crossing in free if is_near(sequence, event, crossing)]
            if near:
                free.remove(min(near, key=lambda crossing: abs(crossing["crossed"] - event["frame"])))
            event["cause"] = cause(sequence, event, bool(near), used)


def is_near(sequence, event, crossing):
    """Whether the event's track was lately on the object of a crossing of this line in this direction."""
    is_same_way = all(crossing[key] == event[key] for key in ("line", "in"))
    is_in_time = abs(crossing["crossed"] - event["frame"]) <= NEAR_S * sequence.fps
    return is_same_way and is_in_time and (crossing["object"], True) in event["objects"]


def cause(sequence, event, is_unmatched, used):
    boxes = [path[event["shown"]] for path in sequence.truth.values() if event["shown"] in path]
    seen = collections.Counter()
    for (id, _), n in event["objects"].items():
        seen[id] += n
    if is_unmatched:
        return "the object crosses there, and no event is matched to it"
    if not any(o["source"] == "crossing_depth" for o in event["evidence"]):
        return "the object came or went on the line at the border"
    if all(iou(box, event["box"]) < NOTHING for box in boxes):
        return "nobody is annotated there"
    if any(is_near(sequence, event, crossing) for crossing in used):
        return "the same crossing a second time"
    if seen and max(seen.values()) < 0.9 * sum(seen.values()):
        return "the track was on another object before"
    return "the box crosses, the annotated one does not"


def agreement(sequence, event):
    """Share of foot, centre and lower corners that changed to this side within 1.3 s, times the steadiness of the lower edge."""
    track = sequence.tracks[event["track"]]
    boxes = [track[f] for f in sorted(track) if event["latest"] - 1.3 * sequence.fps <= f <= event["latest"]]
    sides = [[across(event["ends"], b, a) < 0 for b in boxes] for a in ((0.5, 1), (0.5, 0.5), (0, 1), (1, 1))]
    share = sum(s[-1] == event["in"] and (not event["in"]) in s for s in sides) / len(sides)
    jumps = [abs(b[3] - a[3]) / (b[3] - b[1]) for a, b in zip(boxes, boxes[1:])]
    return share * math.exp(-4 * max(jumps, default=0))


def more(sequence, event):
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


def read(in_dir, tracks, path):
    """The events with their causes, the further observations and the sets, in one order."""
    by_sequence = collections.defaultdict(lambda: ([], []))
    with open(path) as file:
        for event in map(json.loads, file):
            if event["label"] != "ignored":
                by_sequence[event["sequence"]][event["label"] == "missed"].append(event)
    all_of_them, extra, sets = [], [], []
    for name, (events, missed) in by_sequence.items():
        sequence = Sequence(in_dir, tracks, name)
        for event in events:
            add_objects(sequence, event)
        name_causes(sequence, events, missed)
        all_of_them += events
        extra += [more(sequence, event) for event in events]
        sets += [sequence.set] * len(events)
    return all_of_them, extra, np.array(sets)


def main():
    events, extra, sets = read(*sys.argv[1:])
    wrong = [event for event in events if event["label"] != "true"]
    causes = collections.Counter(event["cause"] for event in wrong)
    below = collections.Counter(event["cause"] for event in wrong if event["confidence"] < RECORD)
    print("\n| events | below the gate | cause |\n|---|---|---|")
    for name, number in causes.most_common():
        print(f"| {number} | {100 * below[name] / number:.0f} % | {name} |")

    labels = np.array([event["label"] == "true" for event in events])
    found = [{o["source"]: (o["confidence"], o["weight"]) for o in event["evidence"]} for event in events]
    # Not each event has all observations.
    six = np.array([[one[name][0] if name in one else np.nan for name in OBSERVATIONS] for one in found])
    sums = np.array([[sum(c * w for c, w in one.values()), sum(w for _, w in one.values())] for one in found])
    values = {name: np.array([one[name] for one in extra]) for name in extra[0]}
    print(f"\n| variant | {' | '.join(SETS)} | wrong ones below |\n|---|---|---|---|---|")
    report("these weights (chosen on all three)", sets, labels, sums[:, 0] / sums[:, 1])
    for name, value in values.items():
        report(f"… and {name}", sets, labels, (sums[:, 0] + WEIGHT * value) / (sums[:, 1] + WEIGHT))
    for name, columns in (("six", six), ("all eleven", np.column_stack([six, *values.values()]))):
        fill = SimpleImputer(add_indicator=True)
        line = make_pipeline(fill, StandardScaler(), LogisticRegression(class_weight="balanced"))
        report(f"logistic regression, {name}", sets, labels, held_out(line, columns, sets, labels))
        forest = make_pipeline(fill, RandomForestClassifier(400, min_samples_leaf=5, class_weight="balanced", random_state=1))
        report(f"random forest, {name}", sets, labels, held_out(forest, columns, sets, labels))


if __name__ == "__main__":
    main()
