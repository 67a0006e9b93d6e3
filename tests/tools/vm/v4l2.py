"""Scenario v4l2: a device as a source of the command and of the daemon.

It is unplugged and plugged in, its controls are set, its driver injects faults, and a second device delivers JPEG.
"""

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

[sources.webcam.controls]
contrast = 200

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


def check_controls(found, check):
    device = json.loads(found.get("DEVICES") or "{}")
    names = [control["name"] for control in device.get("controls", [])]
    check("devices", "YUYV" in [f["format"] for f in device.get("formats", [])] and "brightness" in names,
          f"{device.get('device')}: {len(device.get('formats', []))} formats, {len(names)} controls, address {device.get('address')}")
    check("control", found.get("CONTROL") == "200", f"contrast of the configuration: {found.get('CONTROL')}")
    check("control returns", found.get("CONTROL_BACK") == "200", f"after it was changed and the camera unplugged: {found.get('CONTROL_BACK')}")
    check("control set", found.get("SET_CODE") == "0" and found.get("CONTROL_SET") == "77", f"by command: {found.get('CONTROL_SET')}")
    check("control range", found.get("RANGE_CODE") not in (None, "0") and "use 0 to 255" in found.get("RANGE", ""), str(found.get("RANGE")))
    shown = json.loads(found.get("SHOW") or "{}")
    values = {control["name"]: control.get("value") for control in shown.get("controls", [])}
    check("control shown", values.get("contrast") == 77 and values.get("saturation") == 90, f"{values}")


def check_faults(found, check):
    frames, ms = (int(n) for n in (found.get("DROPPED") or "0 1").split())
    check("dropped buffers", frames > 0, f"{1000 * frames / ms:.1f} frames/s with every second buffer dropped")
    check("error flag", "FLAGGED" in found, "pictures go on after five buffers with the error flag")
    quiet = (found.get("QUIET") or "- +").split()
    check("no outage by lost pictures", quiet[0] == quiet[1], f"outages before and after: {found.get('QUIET')}")
    check("streamon error", found.get("STREAMON") == "78", f"opened again after VIDIOC_STREAMON failed once, contrast {found.get('STREAMON')}")
    fatal = json.loads(found.get("FATAL") or "{}").get("body", {})
    check("fatal error", fatal.get("kind") == "source_outage" and "FATAL_BACK" in found, f"{fatal.get('cause')}: {fatal.get('message')}")
    check("released at the end", found.get("HELD_AT_END") == found.get("HELD_BEFORE"), f"descriptors of the device: {found.get('HELD_AT_END')}")


def check_jpeg(found, check):
    summary = json.loads(found.get("JPEG") or "{}")
    check("jpeg", found.get("JPEG_CODE") == "0" and summary.get("frames", 0) > 0,
          f"exit code {found.get('JPEG_CODE')}, {summary.get('frames')} frames {found.get('JPEG_ERROR')}")
    loopback = json.loads(found.get("LOOPBACK") or "{}")
    formats = [f["format"] for f in loopback.get("formats", [])]
    check("jpeg device", formats == ["MJPG"], f"{loopback.get('device')}: {formats}")


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
            machine.wait(lambda: "DONE" in machine.lines("found"), 900, "the scenario's end")
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
    check_controls(found, check)
    check_faults(found, check)
    check_jpeg(found, check)
    cost = json.loads(found.get("COST") or "{}") if (found.get("COST") or "").startswith("{") else {}
    check("cost", cost.get("converted_v4l2src_by_mmap", 0) > 0, f"processor time for a picture, 640x360 YUYV: {found.get('COST')}")
    check("no panic", "panicked" not in console, "nothing on the console" if "panicked" not in console else console[-2000:])
    return not failures
