"""The peer of the comparison: Roboflow's workflow engine on the same recorded detections, in this process, offline.

    peer.py DEFINITION DETECTIONS [--warm-up 30]

Runs DEFINITION, whose inputs are `image` and optionally `predictions`, on each frame of DETECTIONS. Prints one JSON object:
the milliseconds of each frame after the warm-up, as wall time and as processor time, and the numeric outputs of the last frame.
One call of the engine is timed, with pictures and detections in memory, as its own video pipeline calls it; reading, compiling
and creating detections are not timed.
"""

import argparse
import contextlib
import datetime
import json
import os
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

os.environ.update(
    TELEMETRY_OPT_OUT="True", METRICS_ENABLED="False", OFFLINE_MODE="True", DISABLE_VERSION_CHECK="True", LOG_LEVEL="ERROR"
)
warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
import supervision as sv  # noqa: E402


def engine(definition):
    # Some versions refuse to start unless the server's package was imported first.
    with contextlib.suppress(ImportError), contextlib.redirect_stdout(sys.stderr):
        import inference.core  # noqa: F401
    from roboflow_workflows.execution_engine.core import ExecutionEngine

    nothing = ("model_manager", "api_key", "background_tasks", "cache", "allowed_write_directory")
    given = {f"workflows_core.{name}": None for name in nothing}
    given["workflows_core.step_execution_mode"] = "local"
    given["workflows_core.allow_access_to_file_system"] = False
    given["workflows_core.allow_access_to_environmental_variables"] = False
    given["workflows_core.thread_pool_executor"] = ThreadPoolExecutor(max_workers=1)
    return ExecutionEngine.init(workflow_definition=definition, init_parameters=given, max_concurrent_steps=1)


def detections(recording, frame):
    rows = np.asarray(recording["frames"][frame], dtype=float).reshape(-1, 6)
    names = recording["class_names"]
    count = len(rows)
    size = np.array([[recording["height"], recording["width"]]] * count)
    texts = {
        "class_name": [names[int(c)] for c in rows[:, 5]],
        "detection_id": [f"{frame}-{i}" for i in range(count)],
        "parent_id": ["image"] * count,
        "root_parent_id": ["image"] * count,
        "prediction_type": ["object-detection"] * count,
    }
    data = {name: np.array(values) for name, values in texts.items()}
    zeros = np.zeros((count, 2))
    for whose in ("parent", "root_parent"):
        data[f"{whose}_dimensions"] = size
        data[f"{whose}_coordinates"] = zeros
    data["image_dimensions"] = size
    return sv.Detections(xyxy=rows[:, :4], confidence=rows[:, 4], class_id=rows[:, 5].astype(int), data=data)


def picture(recording, frame, pixels):
    number = frame + 1
    taken = datetime.datetime.fromtimestamp(1_700_000_000 + number / recording["fps"])
    meta = {
        "video_identifier": "replay",
        "frame_number": number,
        "frame_timestamp": taken.isoformat(),
        "fps": recording["fps"],
        "comes_from_video_file": True,
    }
    return {"type": "numpy_object", "value": pixels, "video_metadata": meta}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("definition")
    parser.add_argument("detections")
    parser.add_argument("--warm-up", type=int, default=30)
    args = parser.parse_args()
    with open(args.definition) as file:
        definition = json.load(file)
    with open(args.detections) as file:
        recording = json.load(file)
    running = engine(definition)
    takes_boxes = any(given["name"] == "predictions" for given in definition["inputs"])
    pixels = np.zeros((recording["height"], recording["width"], 3), dtype=np.uint8)
    spent, worked = [], []
    for frame in range(len(recording["frames"])):
        inputs = {"image": picture(recording, frame, pixels)}
        if takes_boxes:
            inputs["predictions"] = detections(recording, frame)
        began, busy = time.perf_counter(), time.process_time()
        result = running.run(runtime_parameters=inputs)
        worked.append((time.process_time() - busy) * 1e3)
        spent.append((time.perf_counter() - began) * 1e3)
    numbers = {k: v for k, v in result[0].items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    first = args.warm_up
    print(json.dumps({"ms": spent[first:], "cpu_ms": worked[first:], "numbers": numbers}))


if __name__ == "__main__":
    main()
