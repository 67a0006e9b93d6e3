"""Runs one scenario: scenario.py NAME IMAGE SHARE [ARGUMENTS]; exit code 0 if all checks pass."""

import importlib
import sys

sys.dont_write_bytecode = True
name, image, share, *arguments = sys.argv[1:]
sys.exit(0 if importlib.import_module(name).run(image, share, arguments) else 1)
