"""Makes the files of this folder: what the peer's own blocks answer to inputs of ours.

    python3 -m venv venv && venv/bin/pip install roboflow-workflows==0.2.14 inference-core==1.8.3
    venv/bin/python make.py [FAMILY...]

Every case is one step on one frame after the other. Random identities become null. Cases and numbers are ours; nothing of
the peer's code or text is in the files. `tests/peer.rs` runs the same steps here and compares.
"""

import base64
import datetime
import json
import logging
import os
import sys
import warnings

os.environ.update(TELEMETRY_OPT_OUT="True", METRICS_ENABLED="False", OFFLINE_MODE="True", LOG_LEVEL="ERROR")
warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import cv2
import numpy as np
import supervision as sv
from roboflow_workflows.core_steps.common.serializers import serialise_sv_detections
from roboflow_workflows.execution_engine.core import ExecutionEngine
from roboflow_workflows.execution_engine.entities.base import WorkflowImageData
from trackers.core.botsort.tracklet import BoTSORTTracklet
from trackers.core.bytetrack.tracklet import ByteTrackTracklet
from trackers.core.ocsort.tracklet import OCSORTTracklet
from trackers.core.sort.tracklet import SORTTracklet

HERE = os.path.dirname(os.path.abspath(__file__))
INIT = {
    "workflows_core.model_manager": None,
    "workflows_core.api_key": None,
    "workflows_core.step_execution_mode": "local",
    "workflows_core.background_tasks": None,
    "workflows_core.thread_pool_executor": None,
    "workflows_core.cache": None,
}


def png(array):
    return base64.b64encode(cv2.imencode(".png", array)[1].tobytes()).decode()


def picture(array, number=1):
    """A frame of a recording at 30 frames a second; `array` is rows of B, G, R."""
    return {"png": png(array), "number": number}


def boxes(size, *rows):
    out = []
    for i, row in enumerate(rows):
        full = {"confidence": 0.9, "class_id": 0, "class": "person", "detection_id": f"d{i}", "parent_id": "image"}
        full.update(row)
        out.append(full)
    return {"image": {"width": size[0], "height": size[1]}, "predictions": out}


def box(x, y, width, height, **more):
    return {"x": float(x), "y": float(y), "width": float(width), "height": float(height), **more}


def outlined(points, **more):
    """A box with a mask, by the outline of the mask."""
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    row = box((min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2, max(xs) - min(xs), max(ys) - min(ys), **more)
    row["points"] = [{"x": float(x), "y": float(y)} for x, y in points]
    return row


def given(value):
    """A value of a frame as the peer takes it."""
    if isinstance(value, list):
        return [value]  # a list would be a batch
    if isinstance(value, dict) and "png" in value:
        moment = datetime.datetime.fromtimestamp(1700000000.0 + value["number"] / 30.0)
        meta = {
            "video_identifier": "test",
            "frame_number": value["number"],
            "frame_timestamp": moment.isoformat(),
            "fps": 30,
            "comes_from_video_file": True,
        }
        return {"type": "base64", "value": value["png"], "video_metadata": meta}
    return value


def plain(value, ids):
    """An output of the peer as JSON."""
    if isinstance(value, WorkflowImageData):
        return {"png": png(value.numpy_image)}
    if isinstance(value, sv.Detections):
        if len(value) and "detection_id" not in value.data:
            value.data["detection_id"] = np.array(["none"] * len(value))
        return plain(serialise_sv_detections(value), ids)
    if isinstance(value, dict):
        return {
            str(k): (None if k == "detection_id" and v not in ids else plain(v, ids))
            for k, v in value.items()
        }
    if isinstance(value, (list, tuple, set)):
        return [plain(v, ids) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist(), ids)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def run(case):
    for tracklet in (SORTTracklet, ByteTrackTracklet, OCSORTTracklet, BoTSORTTracklet):
        tracklet.count_id = 0  # it counts through the whole process
    inputs = []
    for name, kind in case["inputs"].items():
        if kind == "image":
            inputs.append({"type": "WorkflowImage", "name": name})
        else:
            inputs.append({"type": "WorkflowBatchInput", "name": name, "kind": [kind]})
    definition = {
        "version": "1.0",
        "inputs": inputs,
        "steps": [{**case["step"], "name": "step"}],
        "outputs": [
            {"type": "JsonField", "name": "out", "selector": "$steps.step.*", "coordinates_system": "own"}
        ],
    }
    engine = ExecutionEngine.init(workflow_definition=definition, init_parameters=INIT, max_concurrent_steps=1)
    outputs = []
    for frame in case["frames"]:
        text = json.dumps(frame)
        ids = {f"d{i}" for i in range(100) if f'"d{i}"' in text}
        frame = {name: given(value) for name, value in frame.items()}
        try:
            rows = engine.run(runtime_parameters=frame, serialize_results=False)
            outputs.append(plain(rows[0]["out"], ids))
        except Exception as error:  # what the peer refuses, we refuse
            outputs.append({"error": type(error).__name__})
            print("  refused:", str(error)[:160])
    return outputs


def main():
    from cases import CASES

    wanted = sys.argv[1:]
    for family, cases in CASES.items():
        if wanted and family not in wanted:
            continue
        done = []
        for case in cases:
            print(family, case["name"])
            case = {**case, "outputs": run(case)}
            done.append(case)
        with open(os.path.join(HERE, f"{family}.json"), "w") as file:
            json.dump(done, file, indent=None, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
