"""Waits for what asks for a recording, in a thread of its own, and agrees with the other ranks on its first step.

All of it goes by files in the work folder, which ranks on several machines share:

    trigger.json    what is asked for; made by `etlink trigger`, or by a rank at a signal or a condition
    plan.json       the first step, by the rank that coordinates: the lowest that lives; or that the request is withdrawn
    end.json        the recording of this request is to end before it has its length; made by `etlink trigger --stop`
    L.123.armed     what process 123 of launcher L says: its answer to the request, and what came of earlier ones
    L.123.alive     locked by the process for as long as it lives

A rank answers at the end of a step with the number of steps it has made. When all ranks that live have
answered, the plan names a step that is far enough ahead for each of them to read of it before. Where one rank is
alone, the thread that makes its steps writes the plan, at the end of one, and begins with the next. A request
ends when each has recorded it, or said why not, or died. Who takes a request back makes a plan that says so:
of both plans the one that has the name first counts, because to make a file with a name that is there fails.
"""

import _thread
import json
import math
import os
import statistics
import threading
import time

from .descriptors import KEEPER, held, names_in, opened
from .files import write_new, write_whole
from .guard import attempt, describe
from .process import rank_and_world
from .trigger_signal import TriggerSignal

REQUEST, PLAN, END = "trigger.json", "plan.json", "end.json"
IDLE_S, BUSY_S = 0.25, 0.05
"""So often the thread looks for a request, and for what comes of it."""
LEAD_S, FAR_LEAD_S = 0.5, 4.0
"""How long before its first step a plan is there: for ranks of one machine, and of several, whose file systems keep what they have read for seconds."""
WRITTEN_S = 2
"""An empty plan that is older was not written to its end."""
MISSING_S = 10
"""How long a rank is waited for that has made no step yet."""
KNOWN_STEPS = 20
"""Steps whose median says whether one is slow."""
NOT_HANDLED = "{} is not handled and ends the process: only the main thread can handle signals, but other threads arm and make the steps"
MOST_STEPS = 1_000_000
MOST_BYTES = 1 << 16


class Watcher:
    def __init__(self, session):
        self.session, self.report = session, session.report
        self.started, self.ended = False, False
        # what is asked for, and the plan for it
        self.request, self.plan, self.seen_at, self.began_at = None, None, 0, None
        # the request that this rank is to plan by itself, at the end of a step
        self.alone = None
        # the id of the plan that the thread which makes the steps has decided on
        self.taken = None
        self.rank, self.world, self.excluded = None, None, False
        self.written, self.turn, self.next_look = None, threading.Lock(), 0
        self.lock = None
        self.signal = TriggerSignal(session.armed["signal"])
        self.condition = SlowSteps(session.armed["when"])

    def start(self):
        """At the end of the first step, by the thread that makes the steps: helpers that make none come not here."""
        self.started = True
        self.rank, self.world = rank_and_world(self.session.torch)
        self.excluded = not self.session.is_chosen(self.rank)
        self.lock = lock_own(self.report.path("alive"))
        self.handle_signal()
        attempt(self.signal.wake_main)
        if self.signal.is_missed:
            attempt(self.report.note, NOT_HANDLED.format(self.signal.chosen))
        KEEPER.keep(self)
        _thread.start_new_thread(self.watch, ())

    def handle_signal(self):
        """From the start: the signal may come before the first step, and another thread may make the steps."""
        attempt(self.signal.install)

    def watch(self):
        pause = 0
        while not self.ended:
            try:
                time.sleep(pause)
                pause = IDLE_S
                if not self.ended:
                    pause = self.look()
            except Exception as error:
                attempt(self.report.note, "looking for `etlink trigger`: {}".format(describe(error)))

    def look(self):
        """How long to wait until the next look."""
        attempt(self.keep_lock)
        request = self.current_request()
        if request is None:
            if not self.excluded:
                # none is made before this rank has answered
                attempt(self.remove_plan)
            self.request, self.plan = None, None
            self.ask_if_due()
            if self.session.changed:
                self.session.changed = False
                self.write_status()
            return IDLE_S
        if self.request is None or self.request["id"] != request["id"]:
            self.plan, self.began_at, self.seen_at = None, None, time.monotonic()
            self.request = request
        plan = self.read(PLAN)
        self.plan = plan if is_plan_of(plan, request) else None
        if not self.session.has_answered(request) or self.alone is not None or (self.plan is not None and not self.has_taken(self.plan)):
            # again and again: the other thread may be setting it
            self.session.idle_until = 0
        self.condition.start_again(self.session.made)
        self.write_status()
        if time.monotonic() >= self.next_look:
            self.coordinate()
        return BUSY_S

    def keep_lock(self):
        """The program may have closed it."""
        if self.lock.is_ours():
            lock(self.lock.number)
        else:
            self.lock = lock_own(self.report.path("alive"))

    def has_taken(self, plan):
        return self.taken == plan["id"]

    def last_step(self, running):
        """Of a recording that ends by time, or is stopped, once it is known."""
        plan = self.plan
        return plan.get("last") if plan is not None and plan["id"] == running["id"] else None

    def read(self, name):
        """The object in a file of the work folder, or None; opened anew each time, which file systems of several machines take for a reason to look."""
        try:
            with held(os.path.join(self.report.folder, name), os.O_RDONLY) as file:
                text, found = file.read(MOST_BYTES), os.fstat(file.number)
        except FileNotFoundError:
            return None
        content = attempt(json.loads, text)
        content = content if isinstance(content, dict) else {}
        content.setdefault("id", "{}.{}".format(found.st_ino, found.st_mtime_ns))
        return content

    def read_request(self):
        """An empty file will do: the rest goes without saying."""
        found, armed = self.read(REQUEST), self.session.armed
        if found is None:
            return None
        seconds = found.get("seconds")
        by_time = isinstance(seconds, (int, float)) and seconds > 0
        return {
            "id": str(found["id"]),
            "by": str(found.get("by", "a file")),
            "warmup": number(found.get("warmup"), 0, armed["warmup"]),
            "steps": None if by_time else number(found.get("steps"), 1, armed["steps"]),
            "seconds": seconds if by_time else None,
        }

    def current_request(self):
        """The request that is under way stays the same when its file is touched again."""
        found, known = self.read_request(), self.request
        if found is None or found["by"] != "a file" or known is None or known["id"] == found["id"]:
            return found
        return known if is_plan_of(self.read(PLAN), known) else found

    def ask_if_due(self):
        by = "a signal" if self.signal.take() else None
        if by is None and self.session.window is None and self.condition.is_due(self.session.made, self.session.times.plain):
            by = "--when"
        if by is None or self.session.off or self.excluded:
            return
        content = {"id": "{}.{}".format(self.report.key, time.time_ns()), "by": by}
        # another may have asked in this moment, whose recording is as good
        self.write_new(REQUEST, "ask", content)

    def write_new(self, name, own, content):
        """A file of the protocol, unless it is there; `own`: of one that only this process writes."""
        write_new(os.path.join(self.report.folder, name), self.report.path(own), json.dumps(content))

    def write_status(self, ended=False):
        """If it has changed."""
        with self.turn:
            content = self.session.status()
            if content["rank"] is None:
                content.update(rank=self.rank, world=self.world)
            content.update(excluded=self.excluded or content["excluded"], signal=self.signal.name(), ended=ended)
            if content != self.written and not (self.ended and not ended):
                write_whole(self.report.path("armed"), json.dumps(content))
                self.written = content

    def coordinate(self):
        """If this is the lowest rank that lives."""
        began = time.monotonic()
        here = self.peers()
        peers = [peer for peer in here if peer["lives"]]
        if peers and peers[0]["key"] == self.report.key:
            if self.is_withdrawn():
                self.end_request()
            elif self.plan is not None:
                self.end_when_done(peers)
            elif self.is_answered(peers) and (began > self.seen_at + MISSING_S or not self.is_missed(here)):
                if len(peers) == 1:
                    self.alone = self.request
                else:
                    self.make_plan(peers)
        # a thousand ranks are a thousand files
        now = time.monotonic()
        self.next_look = now + 20 * (now - began)

    def peers(self):
        """The processes that are to record, or were, by rank."""
        found = []
        for name in names_in(self.report.folder):
            key, ending = os.path.splitext(name)
            peer = self.read(name) if ending == ".armed" else None
            if not peer or "rank" not in peer or peer["excluded"]:
                continue
            lives = key == self.report.key or is_locked(os.path.join(self.report.folder, key + ".alive"))
            found.append(dict(peer, key=key, lives=lives and not peer["ended"]))
        return sorted(found, key=lambda peer: (peer["rank"], peer["key"]))

    def is_answered(self, peers):
        """By each rank; of several processes with one rank, one makes the steps."""
        wanted = {peer["rank"] for peer in peers}
        return bool(wanted) and wanted == {peer["rank"] for peer in peers if self.answer_of(peer)}

    def answer_of(self, peer):
        answer = peer["answer"]
        return answer if answer is not None and answer[0] == self.request["id"] else None

    def is_missed(self, peers):
        """Whether a rank of the machines that are here has made no step yet."""
        ranks = {peer["rank"] for peer in peers}
        for peer in peers:
            world = peer["world"]
            if world is None:
                continue
            local = min(peer["local_world"] or world, world)
            first = peer["rank"] // local * local
            chosen = [rank for rank in range(first, min(first + local, world)) if self.session.is_chosen(rank)]
            if not ranks.issuperset(chosen):
                return True
        return False

    def make_plan(self, peers):
        """Says from which step on all record."""
        request = self.request
        answers = [answer for answer in map(self.answer_of, peers) if answer is not None]
        fastest = min([answer[2] for answer in answers if answer[2]] or [1_000_000]) / 1e9
        made = max([answer[1] for answer in answers] + [self.steps_made(peer) for peer in peers])
        begin = made + max(2, math.ceil(self.lead_seconds(peers) / fastest))
        self.plan_from(begin, request, fastest)

    def plan_alone(self, made):
        """By the thread that makes the steps, at the end of one: this rank need not wait to hear of its own plan."""
        request, self.alone = self.alone, None
        if request is not self.request or self.plan is not None or not self.session.has_answered(request):
            return
        self.plan_from(made, request, (self.session.answer[2] or 1_000_000) / 1e9)
        plan = self.read(PLAN)
        self.plan = plan if is_plan_of(plan, request) else None

    def plan_from(self, begin, request, fastest):
        """The first step that can be recorded, and how many seconds one takes."""
        length = request["steps"] or math.ceil(request["seconds"] / fastest)
        first = self.beside_every(begin, request["warmup"] + length) + request["warmup"]
        plan = {"id": request["id"], "by": request["by"], "first": first, "warmup": request["warmup"]}
        plan.update(steps=request["steps"], seconds=request["seconds"])
        self.publish_plan(plan)

    def publish_plan(self, plan):
        """Unless the request has been withdrawn in this moment."""
        found = self.read(PLAN)
        if found is not None and found["id"] != plan["id"]:
            if self.is_being_written(found):
                return
            # of a request whose file somebody has removed
            self.remove_plan()
        self.write_new(PLAN, "plan", plan)
        # A withdrawal may have come and gone since this rank read the request. Of its files, the request goes first.
        asked = self.current_request()
        if asked is None or asked["id"] != plan["id"]:
            found = self.read(PLAN)
            if found is not None and found["id"] == plan["id"]:
                self.remove_plan()

    def is_being_written(self, plan):
        """Where there are no links a plan is empty for a moment: it may be that of a withdrawal."""
        if "first" in plan or "withdrawn" in plan:
            return False
        return time.time() < os.stat(os.path.join(self.report.folder, PLAN)).st_mtime + WRITTEN_S

    def steps_made(self, peer):
        """As each process writes it every 100 ms, if it makes steps."""
        with held(os.path.join(self.report.folder, peer["key"] + ".steps"), os.O_RDONLY) as file:
            return int(file.read(MOST_BYTES) or 0)

    def beside_every(self, begin, length):
        """The first step from `begin` on before which no recording of `--every` has to end."""
        armed = self.session.armed
        every = armed["every"]
        if not every:
            return begin
        nearest = max(1, (begin - armed["steps"]) // every + 1)
        busy = nearest * every - armed["warmup"]
        return nearest * every + armed["steps"] if begin + length > busy else begin

    def is_withdrawn(self):
        """By a command that ended before it could remove the request."""
        found = self.read(PLAN)
        return found is not None and found["id"] == self.request["id"] and "withdrawn" in found

    def remove_plan(self):
        path = os.path.join(self.report.folder, PLAN)
        if os.path.exists(path):
            os.remove(path)

    def end_request(self):
        # first the request: without a plan it would be planned
        for name in (REQUEST, PLAN, END):
            attempt(os.remove, os.path.join(self.report.folder, name))

    def change_plan(self, plan):
        write_whole(os.path.join(self.report.folder, PLAN), json.dumps(plan))

    def end_when_done(self, peers):
        plan = self.plan
        if all(is_settled(peer, plan["id"]) for peer in peers):
            self.end_request()
            return
        if "last" in plan or self.session.made < plan["first"]:
            return
        self.began_at = self.began_at or time.monotonic()
        left_s, lead_s = self.seconds_left(plan), 0 if len(peers) == 1 else self.lead_seconds(peers)
        if left_s is not None and left_s <= lead_s:
            self.change_plan(dict(plan, last=self.last_for_all(plan, peers, lead_s)))

    def lead_seconds(self, peers):
        return LEAD_S if len({peer["host"] for peer in peers}) == 1 else FAR_LEAD_S

    def last_for_all(self, plan, peers, lead_s):
        """A step that none of the ranks has come to when it reads of it; they need not wait for each other."""
        made = max([self.session.made] + [attempt(self.steps_made, peer) or 0 for peer in peers])
        if lead_s == 0:
            return made
        seconds = max(time.monotonic() - self.began_at, lead_s)
        fastest = max(1 / self.step_seconds(), (made - plan["first"]) / seconds)
        return made + max(1, math.ceil(lead_s * fastest))

    def seconds_left(self, plan):
        """Of the recording that has begun; None: it ends by itself."""
        found = self.read(END)
        if found is not None and found["id"] == plan["id"]:
            return 0
        if plan["seconds"] is None:
            return None
        return self.began_at + plan["seconds"] - time.monotonic()

    def step_seconds(self):
        """How long a recorded step takes."""
        times = self.session.times
        known = list(times.recorded)[-KNOWN_STEPS:] or list(times.plain)
        return statistics.median(known) / 1e9 if known else 1

    def end(self):
        """The process ends, or its recording."""
        if self.started and not self.ended:
            self.ended = True
            attempt(self.write_status, True)
        attempt(KEEPER.let_go, self)
        attempt(self.signal.uninstall)

    def forked(self):
        """In a forked child: nothing of it is its own."""
        self.ended = True
        attempt(KEEPER.let_go, self)
        attempt(self.signal.uninstall)


def number(given, least, usual):
    return given if isinstance(given, int) and least <= given <= MOST_STEPS else usual


def is_plan_of(plan, request):
    return plan is not None and plan["id"] == request["id"] and "withdrawn" not in plan


def is_settled(peer, request):
    return any(asked["id"] == request for asked in peer["asked"])


def lock_own(path):
    """A lock that dies with this process, and that a forked child does not have."""
    descriptor = opened(path, os.O_RDWR | os.O_CREAT, 0o644)
    lock(descriptor.number)
    return descriptor


def lock(descriptor):
    """Again and again: the lock is lost when this process opens and closes the file elsewhere, as a program does that copies its folder."""
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_locked(path):
    """Whether the process that made a file still lives."""
    import fcntl

    try:
        with held(path, os.O_RDONLY) as file:
            return not attempt(has_shared_lock, file.number)
    except FileNotFoundError:
        return False


def has_shared_lock(descriptor):
    """Raises if another process has locked it."""
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return True


class SlowSteps:
    """Whether a step took longer than a limit: `{"factor": 1.5}` of the median, or `{"ns": …}`; None: never."""

    def __init__(self, limit):
        self.limit, self.made = limit, 0

    def start_again(self, made):
        """The steps of a recording are slow, and the first ones after it."""
        self.made = made + KNOWN_STEPS

    def is_due(self, made, plain):
        new = made - self.made
        if self.limit is None or new <= 0 or len(plain) < KNOWN_STEPS:
            return False
        self.made, times = made, list(plain)
        limit = self.limit.get("ns") or self.limit["factor"] * statistics.median(times)
        return any(time_ns > limit for time_ns in times[-new:])
