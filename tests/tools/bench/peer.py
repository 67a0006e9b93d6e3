"""The peer of the benchmark: OpenCV decode, onnxruntime, supervision's ByteTrack and LineZone.

Does the work of `watchkeeper run CLIP --model yolox_nano.onnx --line …` as a script would, and prints one JSON line.
Usage: peer.py CLIP MODEL X1,Y1,X2,Y2 [THREADS]
"""

import json
import resource
import sys
import time

import cv2
import numpy as np
import onnxruntime as ort
import supervision as sv

SIZE = 416


def grid():
    """Cell corners and strides of YOLOX's three maps, in the order of its output rows."""
    cells, strides = [], []
    for stride in (8, 16, 32):
        n = SIZE // stride
        ys, xs = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        cells.append(np.stack((xs, ys), 2).reshape(-1, 2))
        strides.append(np.full((n * n, 1), stride))
    return np.concatenate(cells), np.concatenate(strides)


def main():
    clip, model, line = sys.argv[1], sys.argv[2], [int(v) for v in sys.argv[3].split(",")]
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    cv2.setNumThreads(threads)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    cells, strides = grid()
    tracker = sv.ByteTrack()
    zone = sv.LineZone(sv.Point(line[0], line[1]), sv.Point(line[2], line[3]))
    capture = cv2.VideoCapture(clip)
    frames, tracks = 0, set()
    began = time.perf_counter()
    while True:
        ok, frame = capture.read()
        if not ok:
            break
        frames += 1
        height, width = frame.shape[:2]
        ratio = min(SIZE / height, SIZE / width)
        scaled = cv2.resize(frame, (int(width * ratio), int(height * ratio)))
        canvas = np.full((SIZE, SIZE, 3), 114, np.uint8)
        canvas[: scaled.shape[0], : scaled.shape[1]] = scaled
        tensor = canvas.transpose(2, 0, 1)[None].astype(np.float32)
        out = session.run(None, {name: tensor})[0][0]
        scores = out[:, 4:5] * out[:, 5:]
        best, classes = scores.max(1), scores.argmax(1)
        keep = best > 0.3
        centre = (out[keep, :2] + cells[keep]) * strides[keep]
        size = np.exp(out[keep, 2:4]) * strides[keep]
        boxes = np.concatenate((centre - size / 2, centre + size / 2), 1) / ratio
        found = sv.Detections(xyxy=boxes, confidence=best[keep], class_id=classes[keep])
        found = found.with_nms(0.45, class_agnostic=True)
        found = tracker.update_with_detections(found)
        tracks.update(found.tracker_id.tolist())
        zone.trigger(found)
    wall = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "frames": frames,
                "wall_s": wall,
                "cpu_s": used.ru_utime + used.ru_stime,
                "rss_mb": used.ru_maxrss / 1024,
                "in": zone.in_count,
                "out": zone.out_count,
                "tracks": len(tracks),
            }
        )
    )


main()
