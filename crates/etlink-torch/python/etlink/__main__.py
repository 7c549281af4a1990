"""The command `etlink`."""

from __future__ import annotations

import signal
import sys

# absolute: `record` starts this file as a script, which has no package
from etlink._etlink import run_command


def main() -> int:
    """Runs the command line of this process. Returns the exit code."""
    # undo Python's own signal settings, which programs started by `record` would inherit
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    own_command = [sys.executable, sys.argv[0]]
    return run_command(own_command, ["etlink", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
