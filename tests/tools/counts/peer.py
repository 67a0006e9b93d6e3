"""The peer of the counting benchmark: what a developer writes with OpenCV, onnxruntime and supervision.

Counts the crossings of a line and prints one JSON object: `corners` and `foot`, each [in, out, tracks], for supervision's LineZone
with its default anchors and with the foot of the box. Usage: peer.py CLIP MODEL X1,Y1,X2,Y2 CLASS,CLASS...; MODEL is a YOLOX
network of COCO's classes, or `motion` for a background model (MOG2 with OpenCV's usual clean-up).
"""

import json
import sys

import cv2
import numpy as np
import onnxruntime as ort
import supervision as sv

SIZE = 416
COCO = {"person": 0, "bicycle": 1, "car": 2, "motorcycle": 3, "bus": 5, "truck": 7}
SMALLEST_BLOB = 100


class Network:
    def __init__(self, model, classes):
        self.session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name
        self.wanted = [COCO[name] for name in classes]
        cells, strides = [], []
        for stride in (8, 16, 32):
            n = SIZE // stride
            ys, xs = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
            cells.append(np.stack((xs, ys), 2).reshape(-1, 2))
            strides.append(np.full((n * n, 1), stride))
        self.cells, self.strides = np.concatenate(cells), np.concatenate(strides)

    def __call__(self, frame):
        height, width = frame.shape[:2]
        ratio = min(SIZE / height, SIZE / width)
        scaled = cv2.resize(frame, (int(width * ratio), int(height * ratio)))
        canvas = np.full((SIZE, SIZE, 3), 114, np.uint8)
        canvas[: scaled.shape[0], : scaled.shape[1]] = scaled
        out = self.session.run(None, {self.name: canvas.transpose(2, 0, 1)[None].astype(np.float32)})[0][0]
        scores = out[:, 4:5] * out[:, 5:]
        best, classes = scores.max(1), scores.argmax(1)
        keep = (best > 0.3) & np.isin(classes, self.wanted)
        centre = (out[keep, :2] + self.cells[keep]) * self.strides[keep]
        size = np.exp(out[keep, 2:4]) * self.strides[keep]
        boxes = np.concatenate((centre - size / 2, centre + size / 2), 1) / ratio
        found = sv.Detections(xyxy=boxes, confidence=best[keep], class_id=classes[keep])
        return found.with_nms(0.45, class_agnostic=True)


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


def main():
    clip, model, line, classes = sys.argv[1:5]
    x1, y1, x2, y2 = [int(v) for v in line.split(",")]
    detect = Motion() if model == "motion" else Network(model, classes.split(","))
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
