"""Makes the traces of many ranks from those of one: a run with known truth.

    many_ranks.py --ranks N -o DIR [--times N] [--skew-us US] [--drift-ppm PPM] [--jitter-us US] [--late RANK] [--late-us US]

    true time   rank 0   --[op]~~~~~~~~~~~~~~~--   a collective's op is recorded; later work
                           |=====waits====transfer|   waits until it has ended on all ranks
                late     ~~~~~~~[op]~~~~~~~--      the same, but arrives later
                                  |transfer|
    own time    = true time + offset + drift * (true time - begin)

The recorded text is kept except for times, durations, ranks, groups and process ids. A CPU recording has no device rows: each
collective gets a launch call and a kernel. The kernel begins when its rank arrives, and ends on all ranks together, apart from
the last hop, once the last rank has arrived. `truth.json` has what a tool should find. Same seed, same bytes.
"""

import argparse
import bisect
import json
import random
import re
import sys
from pathlib import Path

from command import PAIRS
from repeat import element_places, micros_of, ns_of, read_text, repeated, write_text

LAUNCH_NS, TRANSFER_NS = 6_000, 60_000
HOP_NS = 1_000
"""Upper bound of the difference between the ranks' ends."""
REST_NS = 50_000
"""Least time between the end of a collective and the next event of each rank."""
STREAM = 20
"""Stream of the kernels. NCCL has its own; PyTorch computes on 7."""
LISTED = 30
"""Number of ranks above which recorded lists of ranks are cut."""
SHARED = ("Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "Process Group Name",
          "Process Group Description", "Process Group Ranks", "Seq")  # fmt: skip
"""Arguments of a collective's op that its kernel has too."""


class Scenario:
    """Times of a run's collectives: the truth, and what the clock of each rank shows."""

    def __init__(self, options, collectives, begin):
        draw = random.Random(options.seed)
        # Rank 0 has true time, because readers take the first rank's clock as the reference.
        self.offset_ns = [draw.randint(-options.skew_us, options.skew_us) * 1000 * (rank > 0) for rank in range(options.ranks)]
        self.drift_ppb = [draw.randint(-options.drift_ppm, options.drift_ppm) * 1000 * (rank > 0) for rank in range(options.ranks)]
        own = [options.late_us * 1000 * (rank == options.late) for rank in range(options.ranks)]
        self.delays = [[late + draw.randint(0, options.jitter_us * 1000) for _ in collectives] for late in own]
        self.hops = [[draw.randrange(HOP_NS) for _ in collectives] for _ in own]
        self.begin, self.collectives = begin, collectives
        self.starts, self.ends = zip(*collectives)
        # The longest time any rank can take: the next collective begins after this one has ended everywhere.
        self.slot = (options.jitter_us + options.late_us) * 1000 + TRANSFER_NS + HOP_NS + REST_NS

    def last(self, collective):
        return max(range(len(self.delays)), key=lambda rank: (self.delays[rank][collective], rank))

    def own(self, rank, true_ns):
        """A true time on the clock of a rank."""
        return true_ns + self.offset_ns[rank] + self.drift_ppb[rank] * (true_ns - self.begin) // 1_000_000_000

    def moment(self, rank, recorded, *, is_end):
        """A recorded begin or end in a rank's time; a begin is delayed by a collective that begins with it, an end is not."""
        over = (bisect.bisect_left if is_end else bisect.bisect_right)(self.ends, recorded)
        inside = over < len(self.starts) and (self.starts[over] < recorded or not is_end and self.starts[over] == recorded)
        return self.own(rank, recorded + over * self.slot + (self.delays[rank][over] if inside else 0))

    def rows(self, rank, collective):
        """Launch call and kernel of a collective, on the clock of a rank."""
        start, end = self.collectives[collective]
        # At most a quarter of the op, so that the call is inside it.
        call = start + collective * self.slot + min((end - start) // 4, 4_000)
        call, last = (call + self.delays[one][collective] for one in (rank, self.last(collective)))
        kernel = call + LAUNCH_NS, last + LAUNCH_NS + TRANSFER_NS + self.hops[rank][collective]
        times = (call, call + min((end - start) // 4, 3_000)), kernel
        return [[self.own(rank, time) for time in pair] for pair in times]


class Template:
    """A trace of the recorded rank as text with gaps, each with a function that fills it for a rank."""

    def __init__(self, text, fills):
        gaps = {}
        for pattern, fill in fills:
            for found in re.finditer(pattern, text):
                for number in range(1, len(found.groups()) + 1):
                    if found[number] is not None:
                        gaps[found.span(number)] = fill, found
        self.pieces, at = [], 0
        for start, end in sorted(gaps):
            fill, found = gaps[start, end]
            number = next(number for number in range(1, len(found.groups()) + 1) if found.span(number) == (start, end))
            self.pieces += [text[at:start], lambda rank, fill=fill, found=found, number=number: fill(rank, found, number)]
            at = end
        self.pieces.append(text[at:])

    def of_rank(self, rank):
        return (piece if isinstance(piece, str) else str(piece(rank)) for piece in self.pieces)


def rank_list(ranks, cut=False):
    shown = [*range(min(ranks, LISTED) if cut else ranks)]
    return f"[{', '.join(map(str, shown))}{', ...' if len(shown) < ranks else ''}]"


def process_number(recorded, rank):
    # No recorded process has a thousand threads, so ids of ranks on one machine never collide.
    return int(recorded) + 1000 * rank


def recorded_collectives(events, world):
    """The recorded collectives in order of time: their times, thread and arguments."""
    found = []
    for event in events:
        arguments = event.get("args", {})
        # The op that waits for a collective has the same name.
        if event.get("name") == "record_param_comms" and arguments.get("Collective name", "wait") != "wait":
            start = ns_of(event["ts"])
            shared = {key: arguments[key] for key in SHARED if key in arguments}
            # It is unclear how a group of some ranks grows with the run.
            if shared["Process Group Ranks"] != rank_list(world):
                sys.exit(f"a collective is of a part of the ranks only: {shared}")
            found.append(((start, start + ns_of(event["dur"])), event["tid"], shared))
    found.sort(key=lambda one: one[0])
    # Time is inserted after each collective; for overlapping ones the place would be ambiguous.
    if not found or any(after[0][0] < before[0][1] for before, after in zip(found, found[1:])):
        sys.exit("collectives are needed that are recorded one after the other")
    return found


def row_text(event, start, end):
    return f',\n  {json.dumps(event)[:-1]}, "ts": {micros_of(start)}, "dur": {micros_of(end - start)}}}'


def added_rows(scenario, collectives, pid, ranks, rank):
    """The launch calls and kernels of a rank's collectives."""
    for number, (_, tid, shared) in enumerate(collectives):
        call, kernel = scenario.rows(rank, number)
        shared = shared | {"Group size": ranks, "Process Group Ranks": rank_list(ranks, cut=True)}
        yield row_text(
            {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernelExC", "pid": process_number(pid, rank),
             "tid": process_number(tid, rank), "args": {"cbid": 430, "correlation": number + 1}}, *call)  # fmt: skip
        yield row_text(
            {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": STREAM,
             "args": {"device": 0, "context": 1, "stream": STREAM, "correlation": number + 1, **shared}}, *kernel)  # fmt: skip


def templates(host, device, options):
    """The host trace, the device trace and the scenario of a run of many ranks."""
    # `ts` and `dur` stay exact decimal text.
    trace = json.loads(device, parse_float=str)
    events = trace["traceEvents"]
    if any(event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") for event in events):
        sys.exit("the device trace has device rows; this works with recordings of the CPU")
    rank, world = trace["distributedInfo"]["rank"], trace["distributedInfo"]["world_size"]
    pid = next(event["pid"] for event in events if isinstance(event.get("pid"), int))
    threads = {pid} | {event["tid"] for event in events if isinstance(event.get("tid"), int)}
    collectives = recorded_collectives(events, world)
    begin = min(ns_of(event["ts"]) for event in events if "dur" in event)
    scenario = Scenario(options, [one[0] for one in collectives], begin)

    def fill_time(to, found, number):
        start = ns_of(found[1])
        begin = scenario.moment(to, start, is_end=False)
        if number == 1:
            return micros_of(begin)
        # Begin and end are moved independently, which must not make a duration negative.
        return micros_of(max(scenario.moment(to, start + ns_of(found[2]), is_end=True) - begin, 0))

    def fill_rank(to, *_):
        return to

    def fill_world(*_):
        return options.ranks

    def fill_process(to, found, number):
        return process_number(found[number], to)

    def fill_rows(to, *_):
        return "".join(added_rows(scenario, collectives, pid, options.ranks, to))

    listed = re.escape(rank_list(world))
    device_template = Template(device, [
        (r'"ts": ([\d.]+)(?:,\s*"dur": ([\d.]+))?', fill_time),
        (rf'"rank": ({rank}), "world_size"', fill_rank),
        (rf'"world_size": ({world})\b', fill_world),
        (rf'"pg_size": ({world}), "ranks"', fill_world),
        (rf'"pg_size": {world}, "ranks": ({listed})', lambda *_: rank_list(options.ranks)),
        (rf'"Process Group Ranks": "({listed})"', lambda *_: rank_list(options.ranks, cut=True)),
        (rf'"Rank": ({rank}),', fill_rank),
        (rf'"Group size": ({world}),', fill_world),
        # `Concrete Inputs` of the ops: positions, not keys, identify rank and size.
        (rf'"", "({rank})", "", "\[\]", "\[\]", "0", "1", "{world}", ', fill_rank),
        (rf'"", "{rank}", "", "\[\]", "\[\]", "0", "1", "({world})", ', fill_world),
        (rf'(?:"pid": |"tid": |"thread |"sort_index": )({"|".join(map(str, threads))})\b', fill_process),
    ])  # fmt: skip
    # The rows come after the last event, but still inside the array.
    last = [*element_places(device)][-1][1]
    device_template.pieces.append(fill_rows)
    after = device[last:]
    before = device_template.pieces[-2].removesuffix(after)
    device_template.pieces[-2:] = [before, fill_rows, after]
    host_template = Template(host, [
        (rf'"pid": ({pid}),', fill_process),
        (rf'\\"group_size\\": ({world}),', fill_world),
        (rf'"default_pg"\],({rank}),"', fill_rank),
        (rf",\[\],\[\],0,1,({world}),", fill_world),
        (rf'"pg_size", "type": "uint64", "value": ({world})\}}', fill_world),
    ])  # fmt: skip
    return host_template, device_template, scenario


def write_run(options):
    """Writes all ranks and `truth.json` into an empty folder."""
    texts = repeated(read_text(options.host), read_text(options.device), options.times)
    host, device, scenario = templates(*("".join(pieces) for pieces in texts), options)
    for rank in range(options.ranks):
        for kind, template in (("torch_et", host), ("kineto_trace", device)):
            write_text(options.output / f"{kind}_{rank}.json.gz", template.of_rank(rank))
    collectives = range(len(scenario.collectives))
    truth = {
        "offset_ns": scenario.offset_ns,
        "drift_ppb": scenario.drift_ppb,
        "collectives": len(collectives),
        "last": [scenario.last(collective) for collective in collectives],
    }
    (options.output / "truth.json").write_text(json.dumps(truth))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    recorded = PAIRS / "ddp2-2.15.0"
    parser.add_argument("--ranks", type=int, required=True, help="number of ranks")
    parser.add_argument("-o", "--output", type=Path, required=True, help="empty folder for the traces and truth.json")
    parser.add_argument("--host", type=Path, default=recorded / "torch_et_0.json.gz", help="host trace of the recorded rank")
    parser.add_argument("--device", type=Path, default=recorded / "kineto_trace_0.json.gz", help="device trace of the recorded rank")
    parser.add_argument("--times", type=int, default=1, help="number of repetitions of the recorded window")
    parser.add_argument("--skew-us", type=int, default=5_000, help="greatest offset of clocks from rank 0's")
    parser.add_argument("--drift-ppm", type=int, default=0, help="greatest drift of clocks against rank 0's")
    parser.add_argument("--jitter-us", type=int, default=20, help="greatest spread of arrivals at a collective")
    parser.add_argument("--late", type=int, help="rank that arrives late at all collectives")
    parser.add_argument("--late-us", type=int, default=200, help="additional delay of the late rank")
    parser.add_argument("--seed", type=int, default=1, help="seed of random numbers")
    options = parser.parse_args()
    if options.ranks < 2 or (options.late is not None and not 0 <= options.late < options.ranks):
        sys.exit("a run has at least two ranks, and the late one is one of them")
    options.output.mkdir(parents=True, exist_ok=True)
    # Traces of a larger run would look like further ranks of this one.
    if any(options.output.iterdir()):
        sys.exit(f"{options.output} is not empty: choose another folder")
    write_run(options)


if __name__ == "__main__":
    main()
