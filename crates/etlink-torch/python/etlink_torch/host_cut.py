"""The host trace of the program's own observer: one file for all cycles of a schedule, cut at their first steps."""

import bisect
import json

from . import files
from .guard import attempt

CUT_BYTES = 1 << 29
"""Larger files are read as a whole, which takes some times as much memory: they stay uncut."""


def share(path, cycles, report):
    """Gives each cycle its host trace. Raises where there is none."""
    if not cycles:
        return
    parts = attempt(cut, path, cycles) if len(cycles) > 1 else None
    for index, cycle in enumerate(cycles):
        if parts is None:
            files.copy_plain(path, cycle.host)
        else:
            with open(cycle.host, "w") as file:
                file.write(parts[index])
        cycle.has_host = True
    if parts is None and len(cycles) > 1:
        report.note("the host trace of the program's own observer is not split: it has the steps of all cycles")


def cut(path, cycles):
    """The text of each part: nodes from the first range of a cycle's steps to that of the next."""
    text = files.read_plain(path, CUT_BYTES)
    trace = json.loads(text)
    nodes = [(identity(node), node) for node in trace["nodes"]]
    firsts = first_ids(sorted(nodes, key=lambda row: row[0]), cycles)
    groups = [[] for _ in cycles]
    for number, node in nodes:
        if number == 0:
            # of the process and its threads: written once, with the first cycle
            for group in groups:
                group.append(node)
        else:
            # what another thread began in the same instant as the first range goes before it
            groups[max(bisect.bisect_right(firsts, number) - 1, 0)].append(node)
    return [json.dumps(dict(trace, nodes=group)) for group in groups]


def first_ids(nodes, cycles):
    """The number of the first range of each cycle, in order."""
    firsts, wanted = [], iter(cycles)
    cycle = next(wanted)
    for number, node in nodes:
        if cycle is not None and node["name"] == "ProfilerStep#{}".format(cycle.first):
            firsts.append(number)
            cycle = next(wanted, None)
    if len(firsts) != len(cycles):
        raise ValueError("the trace lacks the start of some cycles")
    return firsts


def identity(node):
    """The `rf_id` of a node, which the oldest schema has beside its name and the others among its attributes."""
    if "rf_id" in node:
        return node["rf_id"]
    for attribute in node.get("attrs", []):
        if attribute["name"] == "rf_id":
            return attribute["value"]
    return 0
