"""The peer of `differ`: answers of Roboflow's workflow engine to one case a line, offline.

    answers.py < CASES > ANSWERS

A case is `{"definition", "params"?, "images"?, "recording"?}`: values of inputs, picture files for the picture inputs
(several are one batch), or a recording of detections in the format of `watchkeeper workflow replay`. The answer is one object
a line:

    {"ok": false, "stage": "compile" | "run", "class", "message", "steps": [[step, property]...]}
    {"ok": true, "steps": {name: {"exec_dim", "out_dim"}}, "outputs": {name: {"dim", "kind"}}, "rows": [...]}

A case with inputs has `rows`: one for each picture, or a list of rows for each frame of a recording. The package in the folder
PEER_DETECTOR replaces every detection model. Each case runs in its own process, ended after PEER_TIMEOUT_S seconds (60), so no
case affects another.
"""

import base64
import contextlib
import datetime
import json
import os
import signal
import sys
import warnings

QUIET = {
    "ALLOW_INFERENCE_MODELS_DIRECTLY_ACCESS_LOCAL_PACKAGES": "True",
    "DISABLE_VERSION_CHECK": "True",
    "LOG_LEVEL": "ERROR",
    "METRICS_ENABLED": "False",
    "OFFLINE_MODE": "True",
    "TELEMETRY_OPT_OUT": "True",
    "USE_INFERENCE_MODELS": "True",
}
IMAGES = ("WorkflowImage", "InferenceImage")


def import_engine():
    """Imports the slow packages once for all cases."""
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    warnings.filterwarnings("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        import inference.core  # noqa: F401: before the engine, or some versions refuse to start
        import inference.core.managers.base
        import inference.core.registries.roboflow
        import inference.models.utils
        import roboflow_workflows.execution_engine.core  # noqa: F401


def with_one_model(definition):
    """Replaces every model of a definition with one folder."""
    folder = os.environ.get("PEER_DETECTOR")
    steps = []
    for step in definition.get("steps", []) if folder else []:
        inner = step.get("workflow_definition") if isinstance(step, dict) else None
        step = {**step, "workflow_definition": with_one_model(inner)} if isinstance(inner, dict) else step
        if isinstance(step, dict) and isinstance(step.get("model_id"), str):
            step = {**step, "model_id": folder}
        steps.append(step)
    return {**definition, "steps": steps} if folder and isinstance(definition.get("steps"), list) else definition


def engine(definition):
    from inference.core.managers.base import ModelManager
    from inference.core.registries.roboflow import RoboflowModelRegistry
    from inference.models.utils import ROBOFLOW_MODEL_TYPES
    from roboflow_workflows.execution_engine.core import ExecutionEngine
    from roboflow_workflows.prototypes.block import StepExecutionMode

    given = dict.fromkeys(("api_key", "background_tasks", "thread_pool_executor", "cache", "allowed_write_directory"))
    given["model_manager"] = ModelManager(model_registry=RoboflowModelRegistry(ROBOFLOW_MODEL_TYPES))
    given["step_execution_mode"] = StepExecutionMode.LOCAL
    given["allow_access_to_file_system"] = False
    given["allow_access_to_environmental_variables"] = False
    given = {f"workflows_core.{name}": value for name, value in given.items()}
    return ExecutionEngine.init(workflow_definition=with_one_model(definition), init_parameters=given, max_concurrent_steps=1)


def kind_names(kind):
    if isinstance(kind, dict):
        return {name: kind_names(kinds) for name, kinds in kind.items()}
    return sorted(getattr(one, "name", one) for one in kind)


def shape(running):
    """Dimensions and kinds in the form of `watchkeeper workflow validate`."""
    compiled = getattr(running, "_engine", running)._compiled_workflow
    steps, outputs = {}, {}
    for _, node in compiled.execution_graph.nodes(data=True):
        node = node["node_compilation_output"]
        if node.selector.startswith("$steps."):
            out = node.output_dimensionality
            steps[node.name] = {"exec_dim": len(node.step_execution_dimensionality_lineage) if hasattr(node, "step_execution_dimensionality_lineage") else node.step_execution_dimensionality, "out_dim": out}
        elif node.selector.startswith("$outputs."):
            outputs[node.name] = {"dim": node.dimensionality, "kind": kind_names(node.kind)}
    return {"steps": steps, "outputs": outputs}


def refusal(stage, error):
    steps = [[e.block_id, e.property_name] for e in getattr(error, "blocks_errors", None) or []]
    if not steps and getattr(error, "block_id", None):
        steps = [[error.block_id, None]]
    message = str(getattr(error, "_public_message", None) or error)
    inner = getattr(error, "_inner_error", None)
    blocks = [getattr(e, "property_details", None) for e in getattr(error, "blocks_errors", None) or []]
    return {
        "ok": False,
        "stage": stage,
        "class": type(error).__name__,
        "message": message[:400],
        "details": [str(b)[:300] for b in blocks],
        "inner": str(inner)[:600] if inner else None,
        "steps": steps,
    }


def as_json(value):
    """Serialises values that the engine's own serialisers leave."""
    import numpy as np
    import supervision as sv
    from roboflow_workflows.core_steps.common.serializers import serialise_sv_detections

    if isinstance(value, sv.Detections):
        return serialise_sv_detections(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (set, tuple)):
        return list(value)
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return f"<{type(value).__name__}>"


def detections(recording, frame):
    import numpy as np
    import supervision as sv

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
    for whose in ("parent", "root_parent"):
        data[f"{whose}_dimensions"] = size
        data[f"{whose}_coordinates"] = np.zeros((count, 2))
    data["image_dimensions"] = size
    return sv.Detections(xyxy=rows[:, :4], confidence=rows[:, 4], class_id=rows[:, 5].astype(int), data=data)


def replay(running, definition, recording):
    import numpy as np

    pixels = np.zeros((recording["height"], recording["width"], 3), dtype=np.uint8)
    rows = []
    for frame in range(len(recording["frames"])):
        number = frame + 1
        taken = datetime.datetime.fromtimestamp(1_700_000_000 + number / recording["fps"])
        meta = {
            "video_identifier": "replay",
            "frame_number": number,
            "frame_timestamp": taken.isoformat(),
            "fps": recording["fps"],
            "comes_from_video_file": True,
        }
        given = {}
        for declared in definition["inputs"]:
            if declared["type"] in IMAGES:
                given[declared["name"]] = {"type": "numpy_object", "value": pixels, "video_metadata": meta}
            elif declared["type"] == "WorkflowVideoMetadata":
                given[declared["name"]] = meta
            elif declared["type"] == "WorkflowBatchInput":
                given[declared["name"]] = detections(recording, frame)
        try:
            rows.append(running.run(runtime_parameters=given, serialize_results=True))
        except Exception as error:  # noqa: BLE001: the error is the answer
            rows.append(refusal("run", error))
    return rows


def picture(path):
    import cv2

    return cv2.imread(path)


def answer(case):
    definition = case["definition"]
    try:
        running = engine(definition)
    except Exception as error:  # noqa: BLE001: the error is the answer
        return refusal("compile", error)
    try:
        result = {"ok": True, **shape(running)}
    except Exception as error:  # noqa: BLE001
        result = {"ok": True, "steps": {}, "outputs": {}, "shape_error": repr(error)}
    try:
        if "recording" in case:
            with open(case["recording"]) as file:
                recording = json.load(file)
            recording["frames"] = recording["frames"][: case.get("frames")]
            return {**result, "rows": replay(running, definition, recording)}
        if "images" in case or "params" in case:
            given = dict(case.get("params", {}))
            pictures = [picture(path) for path in case.get("images", [])]
            for declared in definition["inputs"] if pictures else []:
                if declared["type"] in IMAGES and declared["name"] not in given:
                    given[declared["name"]] = pictures if len(pictures) > 1 else pictures[0]
            return {**result, "rows": running.run(runtime_parameters=given, serialize_results=True)}
    except Exception as error:  # noqa: BLE001
        return {**result, **refusal("run", error)}
    return result


def answer_in_process(case, timeout_s):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(2, 1)
        signal.alarm(timeout_s)
        with os.fdopen(writing, "w") as out:
            json.dump(answer(case), out, default=as_json)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        text = answers.read()
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return {"ok": False, "stage": "process", "class": "Crash", "message": f"ended with {status}", "steps": []}


def main():
    import_engine()
    timeout_s = int(os.environ.get("PEER_TIMEOUT_S", "60"))
    print("ready", file=sys.stderr, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer_in_process(json.loads(line), timeout_s)), flush=True)


if __name__ == "__main__":
    main()
