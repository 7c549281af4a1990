"""Runs etlink and other programs for the suites that read its files with tools of others."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAIRS = ROOT / "testdata/pairs"


def run(*command, check=True, **more):
    """Returns what a program prints; ends the suite with its errors if it fails."""
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, **more)
    if check and ran.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {ran.stderr.strip()}")
    return ran.stdout


def etlink(*arguments, **more):
    """Runs the command in the variable ETLINK."""
    return run(os.environ["ETLINK"], "-q", *arguments, **more)


def etlink_json(*arguments):
    """Returns the document that etlink prints."""
    return json.loads(etlink(*arguments, "--json"))
