"""Makes profilers for Lightning: lightning_arguments.py OPTIONS...; OPTIONS are Python's. Prints what each raises."""

import sys

from etlink_torch.lightning import EtlinkProfiler

for options in sys.argv[1:]:
    try:
        eval("EtlinkProfiler({})".format(options))
    except Exception as error:
        print("{}: {}".format(type(error).__name__, error))
