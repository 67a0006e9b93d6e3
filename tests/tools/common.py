"""Shared by the tools beside this file: paths, messages, and a Python with the packages of a peer."""

import os
import subprocess
import sys

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(REPO, "target"))


def say(text):
    print(text, file=sys.stderr, flush=True)


def peer_python(name, requirements):
    """Returns PEER_PYTHON, or the Python of a virtual environment `name` with these packages, created once."""
    given = os.environ.get("PEER_PYTHON")
    if given:
        return given
    venv = os.path.join(TARGET, name)
    python = os.path.join(venv, "bin", "python")
    done = os.path.join(venv, "complete")
    if not os.path.exists(done):
        say("installing the peer's packages")
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
        open(done, "w").close()
    return python
