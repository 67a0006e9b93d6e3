"""Scenario v4l2: a device as a source of the command and of the daemon, unplugged and plugged in three times."""

import json
import os
import tempfile

from machine import Machine

CONFIG = """
[box]
site = "vm"
id = "device"

[runtime]
state_dir = "/run/state"
socket = "/run/watchkeeper/runtime.sock"

[sources.webcam]
uri = "v4l2:/dev/video0?width=320&height=180&fps=30"

[pipelines.watch]
source = "webcam"
model = "motion"

[pipelines.watch.workflow]
version = "1.0"
inputs = [{type = "WorkflowImage", name = "image"}]
outputs = [{type = "JsonField", name = "boxes", selector = "$steps.model.predictions"}]

[[pipelines.watch.workflow.steps]]
type = "roboflow_core/roboflow_object_detection_model@v2"
name = "model"
images = "$inputs.image"
model_id = "motion"
"""


def run(image, share, arguments):
    del arguments
    with open(os.path.join(share, "watchkeeper.toml"), "w") as file:
        file.write(CONFIG)
    failures = []

    def check(name, holds, text):
        print(f"v4l2 {name}: {'ok' if holds else 'FAILED'}: {text}", flush=True)
        if not holds:
            failures.append(name)

    with tempfile.TemporaryDirectory(prefix="wk-vm-") as work:
        machine = Machine(image, work, share, "v4l2", ["found"])
        try:
            machine.wait(lambda: "DONE" in machine.lines("found"), 300, "the scenario's end")
        except RuntimeError as error:
            check("end", False, str(error))
        finally:
            machine.cut()
        found = dict(line.partition(" ")[::2] for line in machine.lines("found"))
        console = "\n".join(machine.lines("console"))

    any_mode = json.loads(found.get("ANY") or "{}")
    check("any mode", found.get("ANY_CODE") == "0" and any_mode.get("frames", 0) > 0,
          f"exit code {found.get('ANY_CODE')}, {any_mode.get('frames')} frames in the mode chosen of {found.get('MODES')}")

    def rate(name):
        frames, ms = (int(n) for n in (found.get(name) or "0 1").split())
        return 1000 * frames / ms

    summary = json.loads(found.get("RUN") or "{}")
    check("run", found.get("RUN_CODE") == "0" and summary.get("frames", 0) > 0,
          f"exit code {found.get('RUN_CODE')}, {summary.get('frames')} frames in {summary.get('seconds')} s, {found.get('FORMAT')}")
    check("rate", 0 < 0.8 * rate("DRIVER") < rate("CAPTURED"), f"{rate('CAPTURED'):.1f} frames/s of the driver's {rate('DRIVER'):.1f}")
    check("absent", found.get("ABSENT_CODE") not in (None, "0") and "/dev/video9" in found.get("ABSENT", ""),
          f"exit code {found.get('ABSENT_CODE')}: {found.get('ABSENT')}")
    check("daemon", int(found.get("DAEMON_FRAMES") or 0) > 10, f"{found.get('DAEMON_FRAMES')} frames")
    outage = json.loads(found.get("OUTAGE") or "{}").get("body", {})
    check("unplugged", outage.get("kind") == "source_outage", f"{outage.get('cause')}: {outage.get('message')}")
    check("released", found.get("HELD_BEFORE") == found.get("HELD_AFTER") != "0",
          f"descriptors of the device: {found.get('HELD_BEFORE')} before, {found.get('HELD_AFTER')} after unplugging three times")
    back = json.loads(found.get("BACK") or "{}")
    check("back", back.get("phase") == "end", f"after {back.get('body', {}).get('lasted_s')} s")
    check("resumes", "DAEMON_FRAMES_AFTER" in found, f"{found.get('DAEMON_FRAMES_AFTER')} frames in total")
    check("one outage a time", found.get("OUTAGES") == "3 3", f"begun and ended: {found.get('OUTAGES')}")
    check("no panic", "panicked" not in console, "nothing on the console" if "panicked" not in console else console[-2000:])
    return not failures
