"""Records when it is asked to: a session that is idle until a file, a signal, a condition or a step number asks for a recording.

Each recording is a cycle in a folder named for its first step, `cycle_1200`, which is the same on all ranks; where a program
that was started again comes to that step once more, the next number that is free.
What asks, and how ranks agree on the step, is in `watch.py`; here is what happens at the end of a step.
A step on which nothing is asked for takes no further call: the watching thread sets `idle_until` to 0,
which the next step sees.

A profiler that the program makes itself comes first, because PyTorch has one at a time. While it records, or warms up,
nothing else does; once it has stopped, recordings may be asked for again.
"""

import os
import statistics
import weakref

from . import files, steps
from .guard import attempt, guarded
from .restarts import taken_folders
from .session import Session
from .watch import Watcher

ANSWERED_AFTER = 3
"""Steps after which it is known how long one takes: the first is not measured."""
MOST_ASKED = 1000
ASKED_KEPT = 8
"""Recordings whose outcome is remembered, in the manifest and where others look for it while the program runs."""


def has_whole_step(cycle):
    """Whether a step of a cycle of the manifest ended while it was recorded."""
    return cycle["whole"] or cycle["last_step"] > cycle["first_step"]


class ArmedSession(Session):
    """`settings["armed"]`: `steps` and `warmup` of a recording, `every`, `keep`, `when` and `signal`, or None for each of these four."""

    LEFT_ALONE = "the program's own profiler or execution trace observer was running, and PyTorch allows only one at a time"

    def __init__(self, torch, settings, report):
        # the schedule is that of the recording that was asked for
        super().__init__(torch, dict(settings, schedule=None), report)
        self.armed = settings["armed"]
        # whether there is news for others
        self.changed = True
        # the request that was answered last, as (its id, steps made then, ns per step)
        self.answer = None
        # what is to be recorded next or is being recorded
        self.running = None
        # the program's own profiler and observer, the latest ones, and what the profiler had recorded before
        self.theirs = {}
        self.watcher = Watcher(self)

    def end_step_of_cycle(self):
        if not self.closed:
            self.prepare(self.made + 1)
        super().end_step_of_cycle()
        if self.is_to_wait() and not self.closed:
            # a recording has ended: the next one is not before the end of the next step
            self.wait_for_next(self.made + 1)
            if self.own is None or self.own.cycle is None:
                self.idle_until = self.next_action

    def is_to_wait(self):
        """Whether a step is to be waited for, by its number."""
        return self.running is None and self.armed["every"] and not self.off

    def prepare(self, made):
        """What was asked for; `made`: steps with the one that ends now."""
        watcher = self.watcher
        if not watcher.started:
            watcher.start()
        if watcher.alone is not None and self.window is None:
            # where it fails the watching thread says so again
            attempt(watcher.plan_alone, made)
        request, plan = watcher.request, watcher.plan
        if request is not None and made >= ANSWERED_AFTER and not self.has_answered(request):
            self.claim_rank()
            times = self.times.plain
            self.answer = (request["id"], made, int(statistics.median(times)) if times else None)
        if plan is not None and self.window is None and not watcher.has_taken(plan):
            self.take(plan, made)
        if self.is_to_wait():
            self.wait_for_next(made)
        running = self.running
        if running is not None and self.window is not None:
            self.end_at(watcher.last_step(running))

    def has_answered(self, request):
        return self.answer is not None and self.answer[0] == request["id"]

    def take(self, plan, made):
        """Waits for the step that the ranks have agreed on; not if it is over, or nothing is recorded here."""
        self.watcher.taken = plan["id"]
        before = self.running
        self.running = dict(plan)
        if self.off:
            self.settle("this rank no longer records: {}".format(self.why_off()))
        elif made > plan["first"] - plan["warmup"]:
            self.settle("the request came too late: this rank had made {} steps, but recording starts at step {}".format(made, plan["first"] - plan["warmup"]))
        else:
            self.set_schedule()
            return
        if before is not None:
            self.running = before
            self.set_schedule()

    @guarded
    def foreign(self, own):
        """A profiler of the program is about to warm up or to record, or its observer is registered."""
        if os.getpid() == self.report.pid and not self.closed:
            self.theirs[type(own)] = weakref.ref(own), results_of(own)
            self.yield_to_program()

    def yield_to_program(self):
        self.has_profiled = True
        self.give_up_window("the program started a profiler of its own")

    def give_up_window(self, why):
        if self.window is not None:
            self.fail(why + " during the recording, which is discarded")

    def is_program_profiled(self):
        """Also while it warms up, which PyTorch's own flag does not say."""
        return super().is_program_profiled() or any(is_used(own(), before) for own, before in self.theirs.values())

    def open_window(self, step, settings):
        if self.own is not None:
            self.own.make_room()
        if self.running["id"] is None and self.is_program_profiled():
            self.skip()
            return
        super().open_window(step, settings)

    def end_own_step(self, now):
        is_own, running = super().end_own_step(now), self.running
        if is_own and running is not None and self.made >= running["first"] - running["warmup"]:
            if running["id"] is None:
                self.skip()
            else:
                self.settle(self.LEFT_ALONE)
        return is_own

    def skip(self):
        """Of `--every`, of which the next one comes by itself: nobody misses it."""
        self.running = None
        self.settings["schedule"], self.next_action = None, steps.NEVER

    def why_off(self):
        return "; ".join(self.report.content["notes"]) or "this rank is excluded from recording"

    def wait_for_next(self, made):
        """The next multiple of `every` that is still to come."""
        every, warmup = self.armed["every"], self.armed["warmup"]
        first = max(1, -(-(made + warmup) // every)) * every
        self.running = {"id": None, "by": "--every", "first": first, "warmup": warmup, "steps": self.armed["steps"]}
        self.set_schedule()

    def set_schedule(self):
        running = self.running
        begin = running["first"] - running["warmup"]
        active = steps.NEVER if running["steps"] is None else running["steps"]
        self.settings["schedule"] = {
            "skip_first": begin,
            "wait": 0,
            "warmup": running["warmup"],
            "active": active,
            "repeat": 1,
            "skip_first_wait": 0,
        }
        self.next_action = begin

    def end_at(self, last):
        """Of a recording that ends by time, or is stopped, once the ranks have agreed on its last step."""
        schedule = self.settings["schedule"]
        if last is not None:
            schedule["active"] = min(schedule["active"], max(last, self.made) - self.running["first"] + 1)

    def enter(self, step):
        super().enter(step)
        if self.running is not None and self.window is None and step >= self.running["first"] - self.running["warmup"]:
            self.settle("this rank is not recorded")

    def is_full(self):
        is_full = super().is_full()
        if is_full and self.running is not None:
            # with --keep there may be room again
            self.off = False
            self.settle("one more recording would exceed --max-size")
        return is_full

    def finish(self):
        cycles = self.report.content["cycles"]
        before = len(cycles)
        super().finish()
        if len(cycles) > before:
            attempt(self.remove_oldest)
        if self.running is None:
            return
        if self.running["id"] is None:
            # the program ended in its warmup
            self.skip()
        else:
            self.settle("the recording ended before its first step")

    def save(self):
        """A signal that ends the program comes after this: then it is known what came of the recording."""
        with self.saving:
            cycles = self.report.content["cycles"]
            before = len(cycles)
            why = super().save()
            if self.running is not None and len(cycles) > before:
                self.settle(None, cycles[-1])
            return why

    def fail(self, why):
        """A recording that fails is given up, and the next one may be asked for."""
        if self.running is None or self.closed:
            super().fail(why)
            return
        attempt(self.abandon)
        attempt(self.report.note, why)
        attempt(self.settle, why)
        self.off = False

    def settle(self, why, cycle=None):
        """What came of the recording that was asked for; `why` it is not there, or its cycle."""
        running, self.running = self.running, None
        self.settings["schedule"], self.next_action = None, steps.NEVER
        self.changed, content = True, self.report.content
        del content["asked"][: -MOST_ASKED]
        content["asked"].append(
            {
                "id": running["id"],
                "by": running["by"],
                "first_step": running["first"] if cycle is None else cycle["first_step"],
                "last_step": None if cycle is None else cycle["last_step"],
                "folder": None if cycle is None else self.folder(),
                "why": why,
            }
        )
        self.report.write()

    def folder(self):
        """Of the last cycle."""
        return os.path.dirname(self.report.content["cycles"][-1]["host_trace"])

    def next_folder(self, first):
        """Named for the first step: ranks that missed a recording put the next one in the same place as the others."""
        taken = taken_folders(self)
        while "cycle_{}".format(first) in taken:
            first += 1
        return "cycle_{}".format(first)

    def remove_oldest(self):
        """`--keep`: only traces that this process has written."""
        cycles, keep = self.report.content["cycles"], self.armed["keep"]
        # one that the end of the program cut in its first step is no reason to lose a whole one
        while keep and sum(map(has_whole_step, cycles)) > keep:
            oldest = cycles.pop(0)
            self.report.write()
            for kind in files.OF_CYCLE:
                if oldest[kind] is not None:
                    attempt(os.remove, os.path.join(self.settings["output"], oldest[kind]))
            # other ranks may still have theirs in it
            attempt(os.rmdir, os.path.join(self.settings["output"], os.path.dirname(oldest["host_trace"])))

    def takes_over(self, rank, holder, lives):
        """A job that was started again is armed again."""
        if lives:
            return super().takes_over(rank, holder, lives)
        self.report.take(rank)
        return True

    def status(self):
        """For the other ranks and `etlink trigger`."""
        content, running, answer = self.report.content, self.running, self.answer
        return {
            "pid": self.report.pid,
            "host": content["host"],
            "rank": content["rank"],
            "world": content["world"],
            "local_world": content["local_world"],
            "excluded": content["excluded"],
            "answer": answer,
            "first": None if running is None or running["id"] is None else running["first"],
            "asked": content["asked"][-ASKED_KEPT:],
        }

    @guarded
    def leave(self):
        super().leave()
        if os.getpid() != self.report.pid:
            return
        self.settle_unanswered()
        self.watcher.end()

    def settle_unanswered(self):
        """What was asked for and has not begun."""
        # it may have been taken back since the last look
        request = attempt(self.watcher.current_request) if self.watcher.request is not None else None
        asked = self.report.content["asked"]
        if request is not None and request["id"] not in [one["id"] for one in asked] and not self.off:
            plan = self.watcher.plan
            plan = plan if plan is not None and plan["id"] == request["id"] else {"first": self.made}
            self.running = dict(request, first=plan["first"])
            self.settle("the program ended after {} steps, before the recording".format(self.made))

    def begin_as_child(self):
        has_begun = super().begin_as_child()
        if has_begun:
            self.watcher.handle_signal()
        return has_begun

    def forked(self):
        attempt(self.watcher.forked)
        super().forked()

    def close(self):
        attempt(self.watcher.end)
        super().close()

    def note_end(self):
        """Nothing was asked for: no mistake."""
        if self.report.content["rank"] is None:
            super().note_end()


def results_of(own):
    """Tells what a profiler has recorded last; none for one that has recorded nothing, and for an observer."""
    results = getattr(own, "kineto_results", None)
    return None if results is None else id(results)


def is_used(own, before):
    """Whether a profiler of `torch.autograd`, which is a part of each, has not stopped; or an observer not.

    before: its results when it began; where cycles add up (`acc_events`), those of the cycle before
    """
    if getattr(own, "entered", False):
        return results_of(own) == before
    return bool(getattr(own, "_registered", False))
