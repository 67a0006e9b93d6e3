"""Scenario powercut: the power fails at random moments; every event that a reader received must survive.

A reader in the guest follows the journal and forwards every event; an event that arrived here counts as acknowledged. After
each cut the reader starts again at event 1. The broker and its subscriber run on the host, which keeps its power. The control,
a writer in the guest that does not sync, shows that the same cut loses unsynced data.
"""

import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time

from machine import Machine, empty_disk

RULES = 12
SOURCES = 1
BOOT_S = 240

CONFIG = """
[box]
site = "vm"
id = "cut"

[runtime]
state_dir = "/data/state"
socket = "/run/watchkeeper/runtime.sock"

[mqtt]
host = "10.0.2.2"
port = {port}
"""

PIPELINE = """
[sources.street{n}]
uri = "demo:?seconds=45&width=320&height=180&fps=5&seed={n}"
pace = "native"

[pipelines.watch{n}]
source = "street{n}"
model = "motion"

[pipelines.watch{n}.workflow]
version = "1.0"
inputs = [{{type = "WorkflowImage", name = "image"}}]
outputs = [{{type = "JsonField", name = "tracked", selector = "$steps.tracker.tracked_detections"}}]

[[pipelines.watch{n}.workflow.steps]]
type = "roboflow_core/roboflow_object_detection_model@v2"
name = "model"
images = "$inputs.image"
model_id = "motion"

[[pipelines.watch{n}.workflow.steps]]
type = "roboflow_core/byte_tracker@v3"
name = "tracker"
image = "$inputs.image"
detections = "$steps.model.predictions"
"""

RULE = """
[[pipelines.watch{n}.rules]]
name = "somebody-{rule}"
when = {{ kind = "appears", detections = "$steps.tracker.tracked_detections" }}
"""


class Broker:
    """mosquitto on a free loopback port, and a subscriber that writes its messages to a file."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = os.path.join(folder, "mosquitto.conf")
        with open(config, "w") as file:
            file.write(f"listener {self.port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
        program = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        self.log = open(os.path.join(folder, "mosquitto.log"), "w")
        self.daemon = subprocess.Popen([program, "-c", config], stdout=self.log, stderr=self.log)
        self.messages = os.path.join(folder, "messages.txt")
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                time.sleep(0.1)
        self.out = open(self.messages, "w")
        self.subscriber = subprocess.Popen(
            ["mosquitto_sub", "-p", str(self.port), "-q", "1", "-c", "-i", "foreign", "-v", "-t", "watchkeeper/v1/vm/cut/#"],
            stdout=self.out, stderr=self.log)

    def events(self):
        """Number → id of every event message, and the loss messages."""
        ids, losses = {}, []
        with open(self.messages) as file:
            for line in file.read().split("\n")[:-1]:
                topic, _, text = line.partition(" ")
                if topic.endswith("/ev/loss") or "/ev/loss" in topic:
                    losses.append(text)
                elif "/ev/" in topic:
                    body = json.loads(text)
                    ids.setdefault(body["seq"], set()).add(body["id"] + body.get("phase", ""))
        return ids, losses

    def close(self):
        for process in (self.subscriber, self.daemon):
            process.kill()
            process.wait()
        self.out.close()
        self.log.close()


class Truth:
    """Acknowledged events: number → identity and hash."""

    def __init__(self):
        self.events = {}
        self.faults = []

    def last(self):
        return max(self.events, default=0)

    def take(self, lines):
        """Checks the events of one boot, from the first on; returns the number of the last."""
        expected = 1
        for line in lines:
            event = json.loads(line)
            seq, mark = event["seq"], (event["id"], event["phase"], event["hash"])
            if seq != expected:
                self.faults.append(f"event {seq} follows {expected - 1}")
            if event["body"]["kind"] == "loss":
                self.faults.append(f"event {seq} is a loss: {event['body'].get('message')}")
            if self.events.setdefault(seq, mark) != mark:
                self.faults.append(f"event {seq} differs from the acknowledged one")
            expected = seq + 1
        return expected - 1


def configuration(share, port, pipelines):
    text = CONFIG.format(port=port)
    for n in range(1, pipelines + 1):
        text += PIPELINE.format(n=n) + "".join(RULE.format(n=n, rule=r) for r in range(1, RULES + 1))
    with open(os.path.join(share, "watchkeeper.toml"), "w") as file:
        file.write(text)


def cursor_of(machine):
    """The agent's cursor as restored at this boot."""
    for line in machine.lines("console"):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if "outbox restored" in plain:
            cursor = re.search(r"\bcursor=(\d+)", plain)
            return int(cursor.group(1)) if cursor else 0
    return None


def check_health(machine):
    for line in machine.lines("console"):
        if "panicked" in line or "GUEST a daemon ended" in line:
            raise RuntimeError(f"the guest reported: {line}")


def run(image, share, arguments):
    cycles = int(arguments[0]) if arguments else 5
    chance = random.Random(int(arguments[1]) if len(arguments) > 1 else None)
    truth, wrote, lost_by_control, failed = Truth(), 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="wk-vm-") as folder:
        broker = Broker(folder)
        data = os.path.join(folder, "data.qcow2")
        empty_disk(data)
        try:
            configuration(share, broker.port, SOURCES)
            for cycle in range(cycles + 1):
                is_last = cycle == cycles
                if is_last:
                    # Without pipelines the journal ends, so the test can wait for its last event.
                    configuration(share, broker.port, 0)
                before, began = truth.last(), time.monotonic()
                machine = Machine(image, os.path.join(folder, f"boot-{cycle}"), share, "powercut", ["events", "control"], data=data)
                try:
                    machine.wait(lambda: len(machine.lines("events")) >= before and cursor_of(machine) is not None, BOOT_S,
                                 f"event {before} after the cut")
                    up = time.monotonic() - began
                    found = machine.wait(lambda: machine.lines("control"), 30, "the control")[0]
                    if is_last:
                        machine.wait(lambda: set(range(1, before + 1)) <= set(broker.events()[0]), BOOT_S, "every event at the broker")
                    else:
                        # A few new events, then a random moment.
                        machine.wait(lambda: len(machine.lines("events")) > before + 3, BOOT_S, "new events")
                        until = time.monotonic() + chance.uniform(1, 8)
                        machine.wait(lambda: time.monotonic() > until, 60, "the moment of the cut")
                    check_health(machine)
                finally:
                    machine.cut()
                last = truth.take(machine.lines("events"))
                cursor = cursor_of(machine)
                if cursor > last:
                    truth.faults.append(f"the agent's cursor {cursor} is ahead of the journal's {last}")
                if last < before:
                    truth.faults.append(f"the journal ends at {last}, event {before} was acknowledged")
                control = int(found.split()[1])
                lost = wrote - control
                wrote = control + sum(line.startswith("WROTE") for line in machine.lines("control"))
                lost_by_control += max(lost, 0)
                faults, truth.faults = truth.faults, []
                failed += bool(faults)
                verdict = "; ".join(faults[:3]) or "ok"
                what = "settle" if is_last else f"cut {cycle + 1}"
                print(f"powercut {what}: {verdict}: up in {up:.1f} s, of {before} acknowledged events {before if not faults else '?'} found, "
                      f"{last - before} new, cursor {cursor}, the control lost {lost} lines", flush=True)
            delivered, losses = broker.events()
        finally:
            broker.close()
    twice = sum(len(ids) > 1 for ids in delivered.values())
    missing = sorted(set(truth.events) - set(delivered))
    wrong = [s for s, ids in delivered.items() if s in truth.events and truth.events[s][0] + truth.events[s][1] not in ids]
    if missing or twice or wrong or losses:
        failed += 1
    print(f"powercut broker: {len(delivered)} events delivered, {len(missing)} of {len(truth.events)} missing, "
          f"{twice} numbers used twice, {len(wrong)} differ from the journal, {len(losses)} losses reported")
    if lost_by_control == 0:
        failed += 1
        print("powercut control: FAILED: the writer without sync lost nothing, so this run is no evidence")
    return failed == 0
