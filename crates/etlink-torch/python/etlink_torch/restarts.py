"""Folders of recordings that earlier processes of the same job have made: a program that is started again counts its steps from 0 once more.

Its ranks have to come to the same folders, and each of them decides alone. So a folder is an earlier process's if that
process was of the same rank, or was over before this one began.
"""

import glob
import json
import os

from .guard import attempt
from .manifest import read
from .watch import is_locked


def taken_folders(session):
    """Names of folders in the output folder."""
    report, output = session.report, session.settings["output"]
    # own ones too: a profiler of the program counts its steps by itself
    taken = {os.path.dirname(cycle["host_trace"]) for cycle in report.content["cycles"]}
    for process, is_over in others(session):
        is_same_rank = process.get("rank") == report.content["rank"]
        for cycle in process.get("cycles") or []:
            trace = os.path.join(output, cycle["host_trace"])
            if is_same_rank or (is_over and attempt(is_older, trace, report.began)):
                taken.add(os.path.dirname(cycle["host_trace"]))
    return taken


def others(session):
    """What other processes of the job have reported, and whether they are over."""
    report, settings = session.report, session.settings
    for path in glob.glob(os.path.join(glob.escape(report.folder), "*.json")):
        key = os.path.basename(path)[: -len(".json")]
        process = attempt(read_report, path)
        if process is not None and key != report.key:
            yield process, not is_locked(report.path_of(key, "alive"))
    # Reports of another launcher of the job go with it. While `old.json` is there the manifest is of what is replaced.
    if settings["hook"] and not os.path.exists(os.path.join(report.folder, "old.json")):
        for process in read(os.path.join(settings["output"], "etlink.json")).get("ranks", []):
            yield process, True


def read_report(path):
    """None for the other JSON files of the work folder."""
    with open(path) as file:
        content = json.load(file)
    return content if isinstance(content, dict) and "cycles" in content else None


def is_older(path, began):
    """Also where the traces have been packed meanwhile."""
    found = path if os.path.exists(path) else path + ".gz"
    return os.stat(found).st_mtime_ns < began
