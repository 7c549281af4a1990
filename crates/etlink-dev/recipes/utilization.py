"""How busy each device of a Kineto trace is while the program runs, by the raw JSON alone.

    python3 utilization.py TRACE...

Computes per device what `etlink analyze` calls `utilization`, and compares the two. Shares no code with etlink.
"""

import gzip
import json
import re
import sys
from pathlib import Path

from command import etlink_json

WORK = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset", "collective_comm", "mtia_ccp_events"}
CALLS = {"cuda_runtime", "cuda_driver", "hip_runtime", "mtia_runtime", "xpu_runtime", "privateuse1_runtime", "Runtime"}
HOST = CALLS | {"cpu_op", "user_annotation", "Operator"}
NO_WORK = ("Event Sync", "Stream Sync", "Context Sync", "Stream Wait Event", "event_wait", "event_record")
STEP = re.compile(r"ProfilerStep#\d+$")
OPTIMIZER = re.compile(r"Optimizer\.step")
TOLERANCE = 0.1
"""Maximum difference, percent."""
LAUNCH_LATENCY_US = 100
"""A row that starts so much later than its call ends waited for something."""
WAIT_LATENCY_US = 10
"""A row that starts so soon after another ended waited for that one."""


def read(path):
    opened = gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
    with opened as file:
        trace = json.loads(file.read().decode("utf-8", "replace"), strict=False)
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return [event for event in events if event.get("ph") == "X" and "ts" in event]


def span(event):
    start = float(event["ts"])
    return start, start + max(float(event.get("dur", 0)), 0)


def union(spans, window):
    """Time in which at least one of the spans holds, inside of the window."""
    total, until = 0.0, window[0]
    for start, end in sorted(spans):
        start, end = max(start, until), min(end, window[1])
        if end > start:
            total, until = total + end - start, end
    return total


def correlation(event):
    arguments = event.get("args") or {}
    return arguments.get("correlation", arguments.get("external id"))


def utilization(events):
    rows = [event for event in events if event.get("cat") in WORK and event.get("name") not in NO_WORK]
    calls = [event for event in events if event.get("cat") in CALLS]
    launched = {correlation(call): span(call) for call in calls if correlation(call) is not None}
    launched_at = {number: called[0] for number, called in launched.items()}
    host = [span(event) for event in events if event.get("cat") in HOST]
    steps = [span(event) for event in events if event.get("cat") in HOST and STEP.match(str(event.get("name")))]
    if not steps:
        # a step ends where the optimizer does
        ends = sorted(span(event)[1] for event in events if OPTIMIZER.match(str(event.get("name"))))
        steps = list(zip(ends, ends[1:]))
    first_call = min(calls, key=lambda call: span(call)[0], default=None)

    def is_from_before(row):
        """Of rows whose call is missing: those that start before the first call, or have a lower id."""
        if first_call is None or correlation(row) in launched_at:
            return False
        ids = correlation(row), correlation(first_call)
        has_lower_id = None not in ids and ids[0] < ids[1]
        return span(row)[0] < span(first_call)[0] or has_lower_id

    own = [row for row in rows if not is_from_before(row)]
    if steps:
        kind, start = "steps", min(step[0] for step in steps)
        end = max(step[1] for step in steps)
        for row in rows:
            called = launched_at.get(correlation(row))
            if called is not None and any(step[0] <= called < step[1] for step in steps):
                end = max(end, span(row)[1])
    elif host:
        kind, start = "process", min(first for first, _ in host)
        end = max([last for _, last in host] + [span(row)[1] for row in own])
    else:
        kind, start = "process", min(span(row)[0] for row in rows)
        end = max(span(row)[1] for row in rows)
    devices = {}
    for device in sorted({device_of(row) for row in rows}, key=str):
        work = [span(row) for row in own if device_of(row) == device]
        earlier = [span(row)[1] for row in rows if device_of(row) == device and is_from_before(row)]
        busy = union(work, (start, end))
        # up to the end of the last row from before, and while the first row of a stream waits for such
        unknown = [(start, until) for until in earlier]
        unknown += [wait for wait in first_waits(rows, launched, start, is_from_before) if wait[2] == device]
        unknown = [wait[:2] for wait in unknown]
        before = union(work + unknown, (start, end)) - busy
        whole = end - start - before
        devices[str(device)] = {
            "window": kind,
            "window_us": end - start,
            "before_us": before,
            "busy_us": busy,
            "busy_share": busy / whole if whole > 0 else None,
        }
    return devices


def first_waits(rows, launched, begin, is_from_before):
    """When the first row of a stream waits for work from before the recording; with the device.

    From its call to its start, where that is long. The first row of a device waits for what the device
    does since the window began, if it waits that long; that of another stream only while rows run whose call is missing. A row
    that begins right after one of another stream ended waited for that one: an event, as NCCL's stream
    waits for that of the gradients.
    """
    first, first_of_device, ends, earlier = {}, {}, {}, {}
    for row in sorted(rows, key=lambda row: span(row)[0]):
        first.setdefault((device_of(row), (row.get("args") or {}).get("stream")), row)
        first_of_device.setdefault(device_of(row), row)
        ends.setdefault(device_of(row), []).append(span(row)[1])
        if is_from_before(row):
            earlier[device_of(row)] = max(earlier.get(device_of(row), 0), span(row)[1])
    for (device, _), row in first.items():
        called, start = launched.get(correlation(row)), span(row)[0]
        if called is None or start - called[1] <= LAUNCH_LATENCY_US:
            continue
        if any(0 <= start - end <= WAIT_LATENCY_US for end in ends[device]):
            continue
        is_first = row is first_of_device[device]
        if not is_first and earlier.get(device, 0) < called[1]:
            continue
        # a wait that is short beside the time before it shows no work since the begin
        is_plausible = start - called[1] >= called[1] - begin
        yield begin if is_first and is_plausible else called[1], start, device


def device_of(row):
    return (row.get("args") or {}).get("device", row.get("pid"))


def compare(path):
    """Prints the shares of each device, and returns the number of devices and of different ones."""
    found = etlink_json("analyze", path)["runs"][0]["ranks"][0]["utilization"] or []
    devices = utilization(read(str(path)))
    assert len(found) == len(devices), f"{path}: {len(devices)} devices here, {len(found)} in etlink"
    different = 0
    for own, other in zip(devices.values(), found):
        shares = [None if share is None else 100 * share for share in (own["busy_share"], other["busy_share"])]
        is_equal = shares[0] == shares[1] or None not in shares and abs(shares[0] - shares[1]) <= TOLERANCE
        different += not is_equal
        print(shares, path, "" if is_equal else f"DIFFERENT: {own}, etlink: {other}")
    return len(devices), different


def traces_in(path):
    return sorted(path.glob("kineto_trace*")) if path.is_dir() else [path]


counts = [compare(trace) for path in map(Path, sys.argv[1:]) for trace in traces_in(path)]
devices, different = map(sum, zip(*counts))
assert devices and not different, f"{different} of {devices} devices differ"
print(f"{devices} devices in {len(counts)} traces: equal")
