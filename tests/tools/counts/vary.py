#!/usr/bin/env python3
"""Writes variants of the clips of cases.json, on which `run` shows whether counts hold where nobody tuned them.

    vary.py CLIPS OUT [VARIANT ...]

VARIANT: mirror, half and third (every second or third frame), small (half of the size), dark and bright (gamma), noise (JPEG of quality
25), night (a tenth of the light, with noise), crop (a twentieth less at each border), slow and fast (1.5 times), grey, rotate (by 3
degrees), bars (black ones at both sides); default: all. OUT/VARIANT has the clips as Motion JPEG with their cases.json;
`run OUT/VARIANT --cases OUT/VARIANT/cases.json` counts in them. Needs OpenCV, as in the packages of
tests/tools/bench.
"""

import json
import os
import sys

import cv2
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
SAME = {"step": 1, "scale": 1, "is_mirrored": False, "margin": 0, "gamma": 1, "quality": 97}
SAME |= {"light": 1, "noise": 0, "speed": 1, "is_grey": False, "angle": 0, "bars": 0}
VARIANTS = {
    "mirror": {"is_mirrored": True},
    "half": {"step": 2},
    "third": {"step": 3},
    "small": {"scale": 0.5},
    "dark": {"gamma": 1.8},
    "bright": {"gamma": 0.5},
    "noise": {"quality": 25},
    "night": {"light": 0.1, "noise": 1.2},
    "crop": {"margin": 0.05},
    "slow": {"speed": 1 / 1.5},
    "fast": {"speed": 1.5},
    "grey": {"is_grey": True},
    "rotate": {"angle": 3},
    "bars": {"bars": 0.125},
}

NOISE = np.random.default_rng(1)


class Variant:
    def __init__(self, capture, changes):
        for name, value in {**SAME, **changes}.items():
            setattr(self, name, value)
        full = [int(capture.get(side)) for side in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT)]
        self.left, self.top = [round(side * self.margin) for side in full]
        self.kept = [side - 2 * cut for side, cut in zip(full, (self.left, self.top))]
        self.size = [int(side * self.scale) for side in self.kept]
        self.bar = int(self.size[0] * self.bars)
        self.full_size = [self.size[0] + 2 * self.bar, self.size[1]]
        self.turn = cv2.getRotationMatrix2D([side / 2 for side in self.size], self.angle, 1)
        self.rate = capture.get(cv2.CAP_PROP_FPS) / self.step * self.speed
        self.levels = np.round(255 * self.light * (np.arange(256) / 255) ** self.gamma).astype(np.uint8)

    def frame(self, frame):
        frame = frame[self.top : self.top + self.kept[1], self.left : self.left + self.kept[0]]
        frame = cv2.LUT(cv2.resize(frame, self.size, interpolation=cv2.INTER_AREA), self.levels)
        if self.noise:
            frame = np.clip(np.round(frame + NOISE.normal(0, self.noise, frame.shape)), 0, 255).astype(np.uint8)
        if self.is_grey:
            frame = cv2.cvtColor(cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY), cv2.COLOR_GRAY2BGR)
        if self.angle:
            frame = cv2.warpAffine(frame, self.turn, self.size)
        frame = cv2.flip(frame, 1) if self.is_mirrored else frame
        return cv2.copyMakeBorder(frame, 0, 0, self.bar, self.bar, cv2.BORDER_CONSTANT)

    def case(self, case, clip):
        x = [min(max(round((x - self.left) * self.scale), 0), self.size[0]) for x in case["line"][::2]]
        y = [min(max(round((y - self.top) * self.scale), 0), self.size[1]) for y in case["line"][1::2]]
        case = {**case, "clip": clip}
        if self.is_mirrored:
            x = [self.size[0] - end for end in x]
            case.update({"in": case["out"], "out": case["in"]})
            if case.get("motion"):
                case["motion"] = case["motion"][::-1]
        ends = [self.turn @ (x[end], y[end], 1) + (self.bar, 0) for end in (0, 1)]
        case["line"] = [round(n) for end in ends for n in end]
        return case


def write(source, target, changes):
    capture = cv2.VideoCapture(source)
    if not capture.isOpened():
        sys.exit(f"cannot read {source}")
    variant = Variant(capture, changes)
    out = cv2.VideoWriter(target, cv2.VideoWriter_fourcc(*"MJPG"), variant.rate, variant.full_size)
    if not out.isOpened():
        sys.exit(f"cannot write {target}")
    out.set(cv2.VIDEOWRITER_PROP_QUALITY, variant.quality)
    number = 0
    while capture.grab():
        if number % variant.step == 0:
            out.write(variant.frame(capture.retrieve()[1]))
        number += 1
    out.release()
    return variant


def main():
    clips, out, *names = sys.argv[1:]
    with open(os.path.join(HERE, "cases.json")) as file:
        cases = json.load(file)
    for name in names or VARIANTS:
        folder = os.path.join(out, name)
        os.makedirs(folder, exist_ok=True)
        new, written = [], {}
        for case in cases:
            clip = os.path.splitext(case["clip"])[0] + ".avi"
            if clip not in written:
                written[clip] = write(os.path.join(clips, case["clip"]), os.path.join(folder, clip), VARIANTS[name])
            new.append(written[clip].case(case, clip))
        with open(os.path.join(folder, "cases.json"), "w") as file:
            json.dump(new, file, indent=1)


main()
