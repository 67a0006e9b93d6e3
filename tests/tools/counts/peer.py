"""The peer of the counting benchmark: what a developer writes with OpenCV, onnxruntime and supervision.

Counts the crossings of a line and prints one JSON object: `corners` and `foot`, each [in, out, tracks], for supervision's LineZone
with its default anchors and with the foot of the box. Usage: peer.py CLIP KIND MODEL X1,Y1,X2,Y2 CLASS,CLASS...; KIND is yolox
(COCO's classes), ssd (as ssd-mobilenet-v2), or motion for a background model (MOG2 with OpenCV's usual clean-up).
"""

import json
import os
import sys

import cv2
import numpy as np
import supervision as sv

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import ssd  # noqa: E402: the path is set above
import yolox  # noqa: E402: the path is set above

COCO = {"person": 0, "bicycle": 1, "car": 2, "motorcycle": 3, "bus": 5, "truck": 7}
SMALLEST_BLOB = 100


class Motion:
    def __init__(self):
        self.model = cv2.createBackgroundSubtractorMOG2(detectShadows=True)
        self.kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))

    def __call__(self, frame):
        mask = (self.model.apply(frame) > 200).astype(np.uint8)
        mask = cv2.morphologyEx(mask, cv2.MORPH_OPEN, self.kernel)
        mask = cv2.dilate(mask, self.kernel, iterations=2)
        contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        rects = [cv2.boundingRect(c) for c in contours if cv2.contourArea(c) > SMALLEST_BLOB]
        if not rects:
            return sv.Detections.empty()
        boxes = np.array([[x, y, x + w, y + h] for x, y, w, h in rects], float)
        return sv.Detections(xyxy=boxes, confidence=np.full(len(rects), 0.9), class_id=np.zeros(len(rects), int))


def detector(kind, model, names):
    if kind == "motion":
        return Motion()
    if kind == "ssd":
        return ssd.Network(model, names)
    return yolox.Network(model, classes=[COCO[name] for name in names])


def main():
    clip, kind, model, line, classes = sys.argv[1:6]
    x1, y1, x2, y2 = [int(v) for v in line.split(",")]
    detect = detector(kind, model, classes.split(","))
    capture = cv2.VideoCapture(clip)
    tracker = sv.ByteTrack(frame_rate=int(round(capture.get(cv2.CAP_PROP_FPS) or 25)))
    ends = sv.Point(x1, y1), sv.Point(x2, y2)
    lines = {
        "corners": sv.LineZone(*ends),
        "foot": sv.LineZone(*ends, triggering_anchors=[sv.Position.BOTTOM_CENTER]),
    }
    tracks = set()
    while True:
        ok, frame = capture.read()
        if not ok:
            break
        found = tracker.update_with_detections(detect(frame))
        tracks.update(found.tracker_id.tolist())
        for zone in lines.values():
            zone.trigger(found)
    print(json.dumps({name: [zone.in_count, zone.out_count, len(tracks)] for name, zone in lines.items()}))


main()
