"""Makes large traces from recorded ones, by repeating the recorded window.

    repeat.py [--host ET] [--device KINETO] --times N -o DIR [--gzip]

Ids and times are moved on by the same amounts in both files, so that ids, launches and flows match within each repetition, and
repetitions never collide. Everything else is copied as text, so that the traces keep their writer's habits.
"""

import argparse
import gzip
import json
import re
import sys
from decimal import Decimal
from pathlib import Path

HOST_KEYS = {
    "id": ("node", 1),
    "ctrl_deps": ("node", 1),
    # Schema 1.0.1 has `parent`; later ones call it `ctrl_deps`.
    "parent": ("node", 1),
    "fw_parent": ("node", 1),
    "rf_id": ("function", 1),
    "seq_id": ("sequence", 0),
}
"""Keys of a host trace's numbers: the family that is moved on together, and the least number that is an id.

Ids of tensors and storages are unchanged: a training loop reuses their memory.
"""
DEVICE_KEYS = {
    "ts": ("time", None),
    "id": ("correlation", 1),
    "External id": ("function", 1),
    "external id": ("function", 1),
    "Record function id": ("function", 1),
    "correlation": ("correlation", 1),
    "wait_on_cuda_event_record_corr_id": ("correlation", 1),
    # The first sequence, event and Python call have the number 0.
    "Sequence number": ("sequence", 0),
    "Ev Idx": ("event", 0),
    "Python id": ("python", 0),
    "Python parent id": ("python", 0),
}
"""Keys of a Kineto event and its `args`."""
ROOT = '"[pytorch|profiler|execution_trace|'
"""Begin of the names of the process and of threads, which are not repeated: a second one would be a second thread."""
MS = 1_000_000


def read_text(path):
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def write_text(path, pieces):
    # Level 6 and no time: the same bytes each day.
    with gzip.GzipFile(path, "wb", 6, mtime=0) if path.suffix == ".gz" else open(path, "wb") as file:
        for piece in pieces:
            file.write(piece.encode())


def ns_of(micros):
    return int(Decimal(micros) * 1000)


def micros_of(ns):
    sign = "-" if ns < 0 else ""
    return f"{sign}{abs(ns) // 1000}.{abs(ns) % 1000:03}"


def element_places(text):
    """Yields the begin and end of each element of the trace's array."""
    decoder = json.JSONDecoder()
    begin = re.search(r'"(traceEvents|nodes)":\s*\[', text)
    if not begin:
        sys.exit("the file has neither traceEvents nor nodes: give a trace of PyTorch")
    at = begin.end()
    blank = re.compile(r"[\s,]*")
    while text[at := blank.match(text, at).end()] != "]":
        try:
            _, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            sys.exit(f"only undamaged traces can be repeated: {error}")
        yield at, end
        at = end


class TraceText:
    """A trace as text, with the numbers in it that differ between repetitions."""

    def __init__(self, text, keys):
        numbers = re.compile(
            rf'"({"|".join(keys)})"(?:, "type": "\w+", "value")?:\s*"?(-?[\d.]+)(?:"?,\s*"dur":\s*([\d.]+))?'
            r'|"name":\s*"ProfilerStep#(\d+)"'
        )
        self.elements, self.window, roots = [], None, set()
        """Pieces of each element, text and numbers in turn; whether it is a root."""
        places = list(element_places(text))
        self.head, self.tail = text[: places[0][0]], text[places[-1][1] :]
        until = places[0][0]
        for start, end in places:
            is_root = ROOT in text[start:end]
            pieces, at = [], until
            for found in numbers.finditer(text, start, end):
                key, number, length, step = found.groups()
                family, least = keys[key] if key else ("step", 0)
                value = ns_of(number) if family == "time" else int(step or number)
                if least is not None and value < least:
                    continue
                if is_root and key == "id":
                    roots.add(value)
                if length:
                    first, last = self.window or (value, value)
                    self.window = min(first, value), max(last, value + ns_of(length))
                begin, stop = found.span(4 if step else 2)
                pieces += [text[at:begin], (family, value, text[begin:stop])]
                at = stop
            self.elements.append((pieces + [text[at:end]], is_root))
            # The comma belongs to the element after it, so that any number of elements can be written.
            until = end
        for pieces, _ in self.elements:
            for at in range(1, len(pieces), 2):
                family, value, written = pieces[at]
                # A reference to a root means the same one in all repetitions.
                if family == "node" and value in roots:
                    pieces[at] = "root", value, written

    def numbers(self):
        for pieces, _ in self.elements:
            yield from pieces[1::2]

    def pieces(self, times, moves):
        """Yields the text of the trace, repeated."""
        yield self.head
        for time in range(times):
            for index, (pieces, is_root) in enumerate(self.elements):
                if time and is_root:
                    continue
                written = [piece if isinstance(piece, str) else moved(piece, time, moves) for piece in pieces]
                yield ("," if time and not index else "") + "".join(written)
        yield self.tail


def moved(number, time, moves):
    family, value, written = number
    if not time:
        return written
    value += time * moves.get(family, 0)
    return micros_of(value) if family == "time" else str(value)


def moves_of(traces):
    """The smallest amounts by which numbers can be moved on, by family, for all traces of a rank."""
    moves, steps = {}, set()
    for trace in traces:
        for family, value, _ in trace.numbers():
            if family == "step":
                steps.add(value)
            elif family not in ("root", "time"):
                moves[family] = max(moves.get(family, 0), value + 1)
        if trace.window:
            start, end = trace.window
            # Whole milliseconds keep the decimals of all times as written; at least one is between repetitions.
            moves["time"] = ((end - start) // MS + 2) * MS
    if steps:
        moves["step"] = max(steps) - min(steps) + 1
    return moves


def repeated(host, device, times):
    """The texts of a rank's traces, repeated; `None` for one that is not there."""
    traces = [text and TraceText(text, keys) for text, keys in ((host, HOST_KEYS), (device, DEVICE_KEYS))]
    moves = moves_of(filter(None, traces))
    return [trace and trace.pieces(times, moves) for trace in traces]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", type=Path, help="host trace to repeat")
    parser.add_argument("--device", type=Path, help="device trace to repeat")
    parser.add_argument("--times", type=int, required=True, help="number of repetitions of the recorded window")
    parser.add_argument("-o", "--output", type=Path, required=True, help="output folder; files keep their names")
    parser.add_argument("--gzip", action="store_true", help="compress the files")
    options = parser.parse_args()
    given = [options.host, options.device]
    if not any(given) or options.times < 1:
        sys.exit("nothing to make: give --host or --device, and --times of at least 1")
    options.output.mkdir(parents=True, exist_ok=True)
    for path, pieces in zip(given, repeated(*(path and read_text(path) for path in given), options.times)):
        if path:
            to = options.output / (path.name.removesuffix(".gz") + (".gz" if options.gzip else ""))
            if to.exists() and to.samefile(path):
                sys.exit(f"{to} is the recording itself: choose another folder")
            write_text(to, pieces)
            print(to)


if __name__ == "__main__":
    main()
