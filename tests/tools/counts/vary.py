#!/usr/bin/env python3
"""Writes variants of the clips of cases.json, on which `run` shows whether counts hold where nobody tuned them.

    vary.py CLIPS OUT [VARIANT ...]

VARIANT: mirror, half and third (every second or third frame), small (half of the size); default: all. OUT/VARIANT has the clips as
Motion JPEG with their cases.json; `run OUT/VARIANT --cases OUT/VARIANT/cases.json` counts in them. Needs OpenCV, as in the packages of
tests/tools/bench.
"""

import json
import os
import sys

import cv2

HERE = os.path.dirname(os.path.abspath(__file__))
# Take each n-th frame, factor on the size, whether to mirror.
VARIANTS = {"mirror": (1, 1, True), "half": (2, 1, False), "third": (3, 1, False), "small": (1, 0.5, False)}
QUALITY = 97


def write(source, target, step, scale, is_mirrored):
    """Returns the width of the new clip."""
    capture = cv2.VideoCapture(source)
    if not capture.isOpened():
        sys.exit(f"cannot read {source}")
    width, height = [int(capture.get(side) * scale) for side in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)]
    code = cv2.VideoWriter_fourcc(*"MJPG")
    out = cv2.VideoWriter(target, code, capture.get(cv2.CAP_PROP_FPS) / step, (width, height))
    if not out.isOpened():
        sys.exit(f"cannot write {target}")
    out.set(cv2.VIDEOWRITER_PROP_QUALITY, QUALITY)
    number = 0
    while capture.grab():
        if number % step == 0:
            frame = cv2.resize(capture.retrieve()[1], (width, height), interpolation=cv2.INTER_AREA)
            out.write(cv2.flip(frame, 1) if is_mirrored else frame)
        number += 1
    out.release()
    return width


def varied(case, clip, width, scale, is_mirrored):
    x1, y1, x2, y2 = [round(v * scale) for v in case["line"]]
    case = {**case, "clip": clip, "line": [x1, y1, x2, y2]}
    if is_mirrored:
        case.update({"line": [width - x1, y1, width - x2, y2], "in": case["out"], "out": case["in"]})
        if case.get("motion"):
            case["motion"] = case["motion"][::-1]
    return case


def main():
    clips, out, *names = sys.argv[1:]
    with open(os.path.join(HERE, "cases.json")) as file:
        cases = json.load(file)
    for name in names or VARIANTS:
        step, scale, is_mirrored = VARIANTS[name]
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        new, widths = [], {}
        for case in cases:
            clip = os.path.splitext(case["clip"])[0] + ".avi"
            if clip not in widths:
                widths[clip] = write(os.path.join(clips, case["clip"]), os.path.join(folder, clip), step, scale, is_mirrored)
            new.append(varied(case, clip, widths[clip], scale, is_mirrored))
        with open(os.path.join(folder, "cases.json"), "w") as file:
            json.dump(new, file, indent=1)


main()
