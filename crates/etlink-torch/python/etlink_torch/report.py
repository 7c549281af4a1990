"""What the process reports to the launcher: one JSON file, rewritten when something happens, and the number of steps.

Nothing here raises: a report that cannot be written must not hurt the program. Its notes then go to a
file that has its place on the disk from the start.
"""

import glob
import json
import os
import platform
import socket
import threading

from .descriptors import OwnFile
from .files import hold_shared, is_only_holder, leave_folder, locked, write_whole
from .guard import attempt, is_programs, silent
from .process import environment, local_world
from .signals import deferred

NOTE_BYTES = 1000
COUNT_NS = 100_000_000
"""So often the number of steps is written outside of the cycles: that is a system call."""

OF_ALL = ("lock", "running", "job")
"""Files of the work folder that are of no process: others have them open, and a new file of the name would be another lock."""

TURN_S = 5
"""A child that was forked while another thread wrote would wait for ever."""


def join_folder(work):
    """Holds the work folder as long as the descriptor that is given back is open.

    The first process that comes removes what processes have left that were killed, as `etlink record` does.
    """
    # whoever ends, or comes too, waits for the other lock
    with locked(work):
        held = hold_shared(os.path.join(work, "running"))
        if attempt(is_only_holder, held):
            attempt(remove_left, work)
        # shared again, after the test
        return hold_again(held)


def hold_again(held):
    import fcntl

    fcntl.flock(held.number, fcntl.LOCK_SH)
    return held


def remove_left(work):
    """Not what `etlink record` has put aside: traces that it puts back."""
    for name in os.listdir(work):
        if name not in OF_ALL and not name.startswith("old.") and not name.endswith(".old"):
            attempt(os.remove, os.path.join(work, name))


class Report:
    """Files `<key>.json` and `<key>.steps` in the work folder; `key` is unique among all processes that write there."""

    def __init__(self, settings, versions):
        self.pid, self.folder = os.getpid(), settings["work"]
        self.key = "{}.{}".format(settings["launcher"], self.pid)
        self.counter, self.count_due, self.spare = None, 0, None
        # a lock that keeps the work folder, as a `Descriptor`
        self.held = None
        self.turn = threading.Lock()
        self.content = {
            "pid": self.pid,
            "host": attempt(socket.gethostname) or "",
            "launcher": settings["launcher"],
            "python": attempt(platform.python_version) or "",
            "torch": versions["torch"],
            "device": versions["device"],
            "nccl": versions["nccl"],
            "environment": attempt(environment) or {},
            "clock": settings.get("clock"),
            "rank": None,
            "world": None,
            "local_world": attempt(local_world),
            "excluded": False,
            "duplicate": False,
            "cycles": [],
            "lacks": [],
            "notes": [],
            "step_times": None,
        }
        if settings.get("armed"):
            # from the start: by this a report is known for that of a process which is armed
            self.content["asked"] = []
        if settings["hook"]:
            attempt(self.reserve, settings["hook"])
        # first the report, by which a launcher that is about to end knows of this process
        self.write()
        attempt(self.open_counter)
        # by the clock of the file system, which the traces have their times of too
        self.began = attempt(self.time_written)

    def time_written(self):
        return os.stat(self.path("json")).st_mtime_ns

    def reserve(self, hook):
        """Room for a note, on another disk perhaps than the traces."""
        path = os.path.join(hook, "{}.note".format(self.pid))
        self.spare = OwnFile(path)
        self.spare.write(b" " * NOTE_BYTES, 0)

    def open_counter(self):
        self.counter = OwnFile(self.path("steps"))

    def path(self, ending):
        return self.path_of(self.key, ending)

    def path_of(self, key, ending):
        return os.path.join(self.folder, "{}.{}".format(key, ending))

    def count(self, number, now):
        """The number of steps made at `now` in ns; of a process that is killed the last may be missing."""
        if now >= self.count_due:
            self.count_due = now + COUNT_NS
            self.write_count(number)

    def write_count(self, number):
        if self.counter is None:
            return
        try:
            if self.counter.write(b"%d" % number, 0):
                attempt(self.hold)
        except Exception as error:
            if is_programs(error):
                raise
            self.counter = None

    def note(self, text):
        if os.getpid() != self.pid:
            # a forked child has a copy, and the files are the parent's
            return
        try:
            if text not in self.content["notes"]:
                self.content["notes"].append(text)
            if not self.write() and self.spare is not None:
                self.spare.write(text.encode("utf-8", "replace")[:NOTE_BYTES], 0)
        except Exception as error:
            if is_programs(error):
                raise

    @silent
    def lacks(self, feature):
        if feature not in self.content["lacks"]:
            self.content["lacks"].append(feature)

    def write(self):
        """Whether it is written; tried twice. By any thread."""
        if os.getpid() != self.pid:
            return False
        # a handler of the program that raises would leave the lock locked
        with deferred(has_defaults=False):
            has_turn = attempt(self.turn.acquire, True, TURN_S)
            is_written = attempt(self.write_now)
            if has_turn:
                attempt(self.turn.release)
        return bool(is_written)

    def write_now(self):
        for _ in range(2):
            try:
                write_whole(self.path("json"), json.dumps(self.content))
                return True
            except Exception as error:
                if is_programs(error):
                    raise
                continue
        return False

    def hold(self):
        """The program closes what it does not know: the lock that keeps the work folder, too."""
        if self.held is not None and not self.held.is_ours():
            self.hold_folder()

    def restore(self):
        """What `remove` has removed: the process goes on after all."""
        os.makedirs(self.folder, exist_ok=True)
        self.hold_folder()
        self.open_counter()
        if self.content["rank"] is not None:
            self.take(self.content["rank"])
        self.write()

    def remove(self):
        """Leaves nothing behind but what others still need."""
        counter, self.counter = self.counter, None
        if counter is not None:
            attempt(counter.close)
        claims = attempt(self.claims) or []
        rings = attempt(glob.glob, glob.escape(self.path("worker_")) + "*") or []
        own = [self.path(ending) for ending in ("json", "steps", "armed", "alive", "forked")]
        for path in (*own, *rings, *claims):
            attempt(os.remove, path)
        held, self.held = self.held, None
        attempt(leave_folder, self.folder, held)

    def release_folder(self):
        """The work folder is kept for this process no more: it may end long after it has left."""
        held, self.held = self.held, None
        if held is not None:
            attempt(held.close)

    def hold_folder(self):
        """Raises if the folder is not there."""
        self.held = hold_shared(os.path.join(self.folder, "running"))

    def claims(self):
        path = os.path.join(self.folder, "rank_{}".format(self.content["rank"]))
        return [path] if attempt(self.holder, path) == self.key else []

    @staticmethod
    def holder(path):
        with open(path) as file:
            return file.read()

    def claim(self, rank):
        """None if the rank is this process's alone, else the process that has it, as (key, whether it lives)."""
        path = os.path.join(self.folder, "rank_{}".format(rank))
        try:
            with open(path, "x") as file:
                file.write(self.key)
            return None
        except FileExistsError:
            holder = self.holder(path)
            if holder == self.key:
                # of this process itself, or of one that had its number: containers start with the same ones again
                return None
            lives = self.lives(holder)
            if lives or self.has_recorded(holder):
                return holder or "?", lives
            # launchers start ranks again
            self.take(rank)
            return None

    def take(self, rank):
        write_whole(os.path.join(self.folder, "rank_{}".format(rank)), self.key)

    def lives(self, holder):
        """Whether a process still runs; one of another launcher, perhaps on another machine, does."""
        launcher, _, pid = holder.rpartition(".")
        if launcher != self.content["launcher"]:
            return True
        try:
            os.kill(int(pid), 0)
            return True
        except ProcessLookupError:
            return False
        except (OSError, ValueError):
            return True

    def has_recorded(self, holder):
        with open(os.path.join(self.folder, "{}.json".format(holder))) as file:
            return bool(json.load(file)["cycles"])
