"""The command `etlink`."""

from __future__ import annotations

import signal
import sys

# absolute: `record` starts this file as a script, which has no package
from etlink._etlink import run_command


def main() -> int:
    """Carries out the command line of this process. Returns the exit code."""
    # what Python has changed for itself would reach the programs that `record` starts
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGXFSZ"):
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    own_command = [sys.executable, sys.argv[0]]
    return run_command(own_command, ["etlink", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
