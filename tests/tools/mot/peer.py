"""The peers of the comparison on the same detections: ByteTrack of supervision, and others of `trackers`.

    peer.py IN_DIR OUT_DIR [--tracker supervision-0.25]

TRACKER is supervision-ACTIVATION, or trackers-NAME with NAME sort, byte-track, oc-sort, c-biou or bot-sort (without pixels)
and the defaults. Reads IN_DIR/<sequence>/det.txt and seqinfo.json, writes OUT_DIR/<sequence>.txt in the format of mot-track, and
prints the milliseconds a frame of each sequence. The tracker gets frames without detections too; reading and writing are not
timed.
"""

import argparse
import collections
import json
import os
import time

import numpy as np
import supervision as sv
import trackers

TRACKERS = {
    "sort": trackers.SORTTracker,
    "byte-track": trackers.ByteTrackTracker,
    "oc-sort": trackers.OCSORTTracker,
    "c-biou": trackers.CBIoUTracker,
    "bot-sort": lambda frame_rate: trackers.BoTSORTTracker(frame_rate=frame_rate, enable_cmc=False),
}


def update_of(name, fps):
    """The function of a new tracker that processes a frame."""
    package, _, setting = name.partition("-")
    if package == "supervision":
        return sv.ByteTrack(frame_rate=round(fps), track_activation_threshold=float(setting)).update_with_detections
    return TRACKERS[setting](frame_rate=fps).update


def read(path):
    """Boxes `x1 y1 x2 y2` and scores by frame."""
    rows = collections.defaultdict(list)
    with open(path) as file:
        for line in file:
            frame, _, x, y, w, h, score = [float(v) for v in line.split(",")[:7]]
            rows[int(frame)].append((x, y, x + w, y + h, score))
    return {frame: np.asarray(boxes) for frame, boxes in rows.items()}


def follow(folder, name):
    with open(os.path.join(folder, "seqinfo.json")) as file:
        info = json.load(file)
    boxes = read(os.path.join(folder, "det.txt"))
    update = update_of(name, info["fps"])
    lines, spent = [], 0.0
    for frame in range(1, info["frames"] + 1):
        rows = boxes.get(frame, np.empty((0, 5)))
        seen = sv.Detections(
            xyxy=rows[:, :4].copy(),
            confidence=rows[:, 4].copy(),
            class_id=np.zeros(len(rows), int),
        )
        begin = time.perf_counter()
        out = update(seen)
        spent += time.perf_counter() - begin
        for (x1, y1, x2, y2), track in zip(out.xyxy, [] if out.tracker_id is None else out.tracker_id):
            if track < 0:
                continue  # not reported
            lines.append(f"{frame},{track},{x1:.2f},{y1:.2f},{x2 - x1:.2f},{y2 - y1:.2f},1,-1,-1,-1\n")
    return lines, 1000 * spent / info["frames"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("in_dir")
    parser.add_argument("out_dir")
    parser.add_argument("--tracker", default="supervision-0.25")
    args = parser.parse_args()
    os.makedirs(args.out_dir, exist_ok=True)
    for name in sorted(os.listdir(args.in_dir)):
        folder = os.path.join(args.in_dir, name)
        if not os.path.exists(os.path.join(folder, "det.txt")):
            continue
        lines, milliseconds = follow(folder, args.tracker)
        with open(os.path.join(args.out_dir, name + ".txt"), "w") as file:
            file.writelines(lines)
        print(f"{name} {milliseconds:.4f} ms/frame", flush=True)


if __name__ == "__main__":
    main()
