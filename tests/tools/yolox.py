"""YOLOX with COCO's classes in ONNX Runtime and OpenCV, as a developer would write it; shared by the scripts that are the peers of a
benchmark.
"""

import cv2
import numpy as np
import onnxruntime as ort
import supervision as sv

SIZE = 416
LEAST_SCORE, OVERLAP = 0.3, 0.45


def grid():
    """Cell corners and strides of YOLOX's three maps, in the order of its output rows."""
    cells, strides = [], []
    for stride in (8, 16, 32):
        n = SIZE // stride
        ys, xs = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        cells.append(np.stack((xs, ys), 2).reshape(-1, 2))
        strides.append(np.full((n * n, 1), stride))
    return np.concatenate(cells), np.concatenate(strides)


class Network:
    def __init__(self, model, threads=None, classes=None):
        """`classes` are the indices to keep; None keeps all. Without `threads` ONNX Runtime decides."""
        options = ort.SessionOptions()
        if threads:
            options.intra_op_num_threads = threads
        self.session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.name = self.session.get_inputs()[0].name
        self.cells, self.strides = grid()
        self.classes = classes

    def __call__(self, frame):
        height, width = frame.shape[:2]
        ratio = min(SIZE / height, SIZE / width)
        scaled = cv2.resize(frame, (int(width * ratio), int(height * ratio)))
        canvas = np.full((SIZE, SIZE, 3), 114, np.uint8)
        canvas[: scaled.shape[0], : scaled.shape[1]] = scaled
        tensor = canvas.transpose(2, 0, 1)[None].astype(np.float32)
        out = self.session.run(None, {self.name: tensor})[0][0]
        scores = out[:, 4:5] * out[:, 5:]
        best, classes = scores.max(1), scores.argmax(1)
        keep = best > LEAST_SCORE
        if self.classes is not None:
            keep &= np.isin(classes, self.classes)
        centre = (out[keep, :2] + self.cells[keep]) * self.strides[keep]
        size = np.exp(out[keep, 2:4]) * self.strides[keep]
        boxes = np.concatenate((centre - size / 2, centre + size / 2), 1) / ratio
        found = sv.Detections(xyxy=boxes, confidence=best[keep], class_id=classes[keep])
        return found.with_nms(OVERLAP, class_agnostic=True)
