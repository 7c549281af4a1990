"""Waits become events of the device trace, before the last of what Kineto wrote."""

import json
import os
import re

from . import workers
from .guard import attempt

HEAD_BYTES = 1 << 16
TAIL_BYTES = (1 << 16, 1 << 20, 1 << 24, 1 << 26)
"""Sizes of the end of the trace to search for the last event, one after the other: behind it Kineto writes all that it logged."""
LAST_OF_ARRAY = re.compile(rb"\}\s*\](?=\s*(?:,\s*\"[^\"\\]*\"\s*:|\}\s*\Z))")
"""The end of an array of objects that is the value of a member: another member follows, or the object ends."""
MOST_BRACES = 100
"""Objects inside of the last event, at most; that of Kineto is `Record Window End`, which has none."""
BASE = re.compile(rb"\"baseTimeNanoseconds\"\s*:\s*(\d+)")
FETCH = "etlink::DataLoader.fetch"
"""The name of what a worker does; it has a track of its own, with its process id for thread."""


def add(path, waits, report, begin, end):
    """Puts what was recorded from `begin` to `end` into the trace. Raises where that is not as known."""
    events = [event for event in collect(waits, report) if begin <= event.end <= end]
    if not events:
        return
    with open(path, "r+b") as file:
        head = file.read(HEAD_BYTES)
        place, tail = end_of_events(file)
        base = BASE.search(head) or BASE.search(tail)
        origin, pid = int(base.group(1)) if base else 0, os.getpid()
        texts = []
        for event in events:
            # as other ranges that began before the recording
            if event.is_wait or event.start >= begin:
                texts.append(event.text(pid, origin, max(event.start, begin)))
        added = ",\n  ".join(["", *texts]).encode()
        try:
            replace_end(file, place, added + tail)
        except Exception:
            # a disk that is full: the trace is whole without them
            replace_end(file, place, tail)
            raise


def end_of_events(file):
    """Returns where the last event of a trace ends, and the bytes behind it. Raises if no event is found.

    Members of any kind may follow the events, and their strings may contain anything. No string contains the text of an
    event, because its quotes would be escaped.
    """
    size = file.seek(0, os.SEEK_END)
    for length in TAIL_BYTES:
        start = file.seek(max(size - length, 0))
        tail = file.read()
        for found in reversed(list(LAST_OF_ARRAY.finditer(tail))):
            place = found.start() + 1
            if ends_with_event(tail, place):
                return start + place, tail[place:]
        if start == 0:
            break
    raise ValueError("no event found in the last {} bytes of the trace".format(min(size, length)))


def ends_with_event(text, place):
    """Returns whether the JSON object that ends at a place of the text is an event, which has a phase."""
    brace = place
    for _ in range(MOST_BRACES):
        brace = text.rfind(b"{", 0, brace)
        if brace < 0:
            return False
        try:
            # Kineto does not escape all control characters
            return "ph" in json.loads(text[brace:place].decode("latin-1"), strict=False)
        except ValueError:
            # the brace of an object inside of the event
            continue
    return False


def replace_end(file, place, text):
    file.seek(place)
    file.truncate()
    file.write(text)
    file.flush()


class Event:
    """A wait, or the work of a worker; times in ns since 1970."""

    def __init__(self, name, thread, start, end, after=None, frees=None, is_wait=True):
        self.name, self.thread, self.start, self.end = name, thread, start, max(start, end)
        self.after, self.frees, self.is_wait = after, frees, is_wait

    def text(self, pid, origin, start):
        numbers = {"after": self.after, "frees": self.frees}
        numbers = {key: number for key, number in numbers.items() if number is not None}
        return (
            '{{"ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, '
            '"args": {}}}'.format(
                "etlink_wait" if self.is_wait else "cpu_op",
                json.dumps(self.name),
                pid,
                self.thread,
                microseconds(start - origin),
                microseconds(self.end - start),
                json.dumps(numbers),
            )
        )


def microseconds(ns):
    """Exact: a float has no room for the nanoseconds since 1970."""
    return "{}.{:03}".format(ns // 1000, ns % 1000)


def collect(waits, report):
    events = [Event(*row) for row in waits.take_rows()]
    given, taken = by_batch(waits.given), by_batch(waits.taken)
    waits.given, waits.taken = [], []
    if not given and not taken:
        return events
    idle = {}
    for pid, batch, begin, end in attempt(workers.batches, report) or []:
        # Numbers of batches begin anew with each epoch: the nearest in time is meant.
        before = [put for put in given.get((pid, batch), ()) if put[2] <= begin]
        later = [got for got in taken.get((pid, batch), ()) if end <= got[2]]
        after = before[-1][3] if before else None
        events += [
            Event("DataLoader.idle", pid, idle.get(pid, begin), begin, after),
            Event(FETCH, pid, begin, end, is_wait=False),
        ]
        if later:
            events.append(Event("DataLoader.fetched", pid, end, end, None, later[0][3]))
        idle[pid] = end
    return events


def by_batch(rows):
    """In order of time."""
    found = {}
    for row in rows:
        found.setdefault(row[:2], []).append(row)
    return found
