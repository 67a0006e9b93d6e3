"""The peer of the benchmark: OpenCV decode, onnxruntime, supervision's ByteTrack and LineZone.

Does the work of `watchkeeper run CLIP --model yolox_nano.onnx --line …` as a script would, and prints one JSON line.
Usage: peer.py CLIP MODEL X1,Y1,X2,Y2 [THREADS]
"""

import json
import os
import resource
import sys
import time

import cv2
import supervision as sv

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from yolox import Network  # noqa: E402: the path is set above


def main():
    clip, model, line = sys.argv[1], sys.argv[2], [int(v) for v in sys.argv[3].split(",")]
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    cv2.setNumThreads(threads)
    detect = Network(model, threads)
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
        found = tracker.update_with_detections(detect(frame))
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
