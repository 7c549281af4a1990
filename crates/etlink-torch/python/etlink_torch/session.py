"""Records this process by the schedule. Whatever goes wrong here is reported and never reaches the program."""

import os
import threading
from threading import get_ident
from time import perf_counter_ns

from . import files, flight_recorder, forks, graph_nodes, signals, steps
from .guard import attempt, describe, guarded, is_programs, silent
from .own_profiler import OwnProfilers
from .process import clear_callbacks, clock, end_without_destructors, hide_from_children, rank_and_world
from .signals import Termination, deferred
from .timing import StepTimes
from .window import Window, is_profiled, lost_parts, own

ADOPT = "adopt"
"""What is done about a profiler of the program: its traces are taken, and the host trace is recorded beside it."""
NEAR_FULL = 0.8
"""The part of `max_size` from which on a note says that it is near."""


class Session:
    LEFT_ALONE = "the program's own profiler is recording: from here on, etlink does not record"

    def __init__(self, torch, settings, report):
        self.torch, self.settings, self.report = torch, settings, report
        self.made, self.window, self.cycle = 0, None, 0
        # before this step nothing is to be recorded
        self.next_action = 0
        # before this step nothing is to be done but to count; never too late, may be too early
        self.idle_until = 0
        self.begun, self.off, self.closed, self.thread = False, False, False, None
        self.times, self.termination, self.has_profiled = StepTimes(), None, False
        self.own = self.own_profilers() if settings["own_profiler"] == ADOPT else None
        # called when traces are in place; traces that TensorBoard has
        self.published, self.shown = None, 0
        # where phases have schedules of their own, these decide instead of ours
        self.phases = None
        # at the end of the process another thread may be saving a cycle
        self.saving = threading.RLock()
        # in a forked child that may become a process of its own, until it has
        self.heir = None
        if settings["options"]["cuda_graph_nodes"]:
            attempt(self.watch_graphs)

    def own_profilers(self):
        """The same object in a forked child: what is wrapped calls that."""
        known = getattr(self, "own", None)
        if known is None:
            return OwnProfilers(self.torch, self)
        known.__init__(self.torch, self)
        return known

    def watch_graphs(self):
        with own():
            graph_nodes.watch(self.torch)

    @silent
    def recordable(self):
        """Not in a forked child and not in a worker of a DataLoader."""
        return os.getpid() == self.report.pid and self.torch.utils.data.get_worker_info() is None

    @guarded
    def begin(self):
        """Before the first step; further calls do nothing."""
        if self.heir is not None:
            self.begin_as_child()
        if not self.begun and not self.closed and self.recordable():
            self.begun = True
            with deferred(has_defaults=False):
                self.enter(0)

    def step(self):
        """At the end of each step, on any thread: only one of them counts."""
        if self.thread in (None, get_ident()):
            self.end_step()

    def end_step(self):
        """At the end of each step, always on one thread.

        A program makes millions of steps that are not recorded: these take no further call of ours.
        """
        try:
            made = self.made + 1
            if made >= self.idle_until:
                if self.closed and self.heir is None:
                    # a forked child that is not recorded
                    return
                # what handlers of the program raise is raised behind it
                with deferred(has_defaults=False):
                    self.end_step_of_cycle()
                return
            self.made, now, times = made, perf_counter_ns(), self.times
            times.plain.append(now - times.started)
            times.started = now
            if now >= self.report.count_due:
                self.report.count(made, now)
        except BaseException as error:
            if isinstance(error, Exception) and not is_programs(error):
                attempt(self.fail, describe(error))
                return
            attempt(self.count_interrupted, made)
            raise

    def count_interrupted(self, made):
        """A handler of the program has raised, perhaps before this step was counted: then it is now."""
        if self.made >= made:
            return
        if made < self.idle_until:
            self.made = made
            return
        try:
            with deferred(has_defaults=False):
                self.end_step_of_cycle()
        except BaseException:
            # by another handler, in these few lines
            if self.made < made and self.window is not None:
                self.made = made
                self.fail("signal handlers of the program raised errors at the end of a step: the cycle is discarded")
            raise

    def end_step_of_cycle(self):
        """In a cycle, just before one, or where it is not known yet whether one begins."""
        if self.closed and not (self.heir is not None and self.begin_as_child()):
            if self.heir is not None:
                attempt(self.heir.note_step)
            return
        self.idle_until, self.thread = 0, get_ident()
        now = perf_counter_ns()
        self.made += 1
        if self.own is not None and self.end_own_step(now):
            return
        if self.window is None and (self.off or self.made < self.next_action):
            self.times.end_plain(now)
            self.report.count(self.made, now)
        else:
            self.record_step(now)
        if self.window is None and not self.closed:
            self.idle_until = steps.NEVER if self.off else self.next_action

    def end_own_step(self, now):
        """Whether the program's own profiler records."""
        self.own.prepared()
        if self.own.cycle is None:
            return False
        self.times.end_recorded(now)
        self.report.count(self.made, now)
        self.times.start()
        return True

    def time_own_steps(self):
        """The program's own profiler has begun to record."""
        self.idle_until = 0
        self.times.start()

    def forget_own_steps(self):
        """What it does at the end of a cycle is no part of a step."""
        self.idle_until = 0
        self.times.started = None

    def record_step(self, now):
        if self.window is None:
            self.times.end_plain(now)
        elif self.window.is_recorded(self.made - 1):
            self.times.end_recorded(now)
        self.report.write_count(self.made)
        if self.window is not None and not self.take_rank():
            self.abandon()
        if not self.off:
            self.advance()
        self.times.start()

    def advance(self):
        if self.termination is not None:
            attempt(self.termination.look)
        if self.window is not None:
            if steps.action(self.settings["schedule"], self.made - 1) == steps.RECORD_AND_SAVE:
                self.finish()
            elif self.is_too_large(self.window):
                self.fail("the cycle exceeded --max-size and is discarded")
            else:
                self.window.step()
        if self.window is None:
            self.enter(self.made)

    def enter(self, step):
        """Begins a cycle if `step` is its first."""
        self.idle_until = 0
        schedule = self.settings["schedule"]
        self.next_action = steps.NEVER if schedule is None else steps.next_action(schedule, step)
        if self.off or step < self.next_action:
            return
        if self.take_rank():
            self.open_window(step, self.settings)

    def open_window(self, step, settings):
        """Begins to record with this step, unless something speaks against it."""
        if self.is_full():
            return
        if self.is_program_profiled():
            self.fail(self.LEFT_ALONE)
            return
        self.window = Window(self.torch, settings, self.report, step)
        self.has_profiled = True
        self.window.open()
        self.termination = Termination(self.leave, self.window.is_closable_here)
        self.termination.install()

    def is_program_profiled(self):
        """Whether a profiler or an observer of its own records."""
        return is_profiled(self.torch) or (self.own is not None and self.own.registered_observer() is not None)

    def is_full(self):
        """Whether one more cycle like the last would be more than `--max-size`."""
        limit = self.settings["max_size"]
        if limit is None:
            return False
        total = files.bytes_recorded(self.settings["output"])
        cycles = max(self.cycle, 1)
        if total + (total // cycles if self.cycle else 0) > limit:
            self.off = True
            self.report.note(
                "recording ended after {} cycles: the traces take {} bytes, and one more cycle would "
                "exceed --max-size".format(self.cycle, total)
            )
            return True
        if total > NEAR_FULL * limit:
            self.report.note("the traces take {} of the {} bytes of --max-size".format(total, limit))
        return False

    def is_too_large(self, window):
        limit = self.settings["max_size"]
        if limit is None or not os.path.exists(window.host):
            return False
        return files.bytes_recorded(self.settings["output"]) + os.path.getsize(window.host) > limit

    def take_rank(self):
        """Learns the rank when it is first needed: it may not be known before."""
        content = self.report.content
        if content["rank"] is not None:
            return True
        rank, world = rank_and_world(self.torch)
        if self.made == 0 and self.settings["step_on"] is not None:
            # a helper or a worker that runs the script too comes by here, and makes no step
            return self.is_chosen(rank)
        return self.claim_rank()

    def claim_rank(self):
        """Whether the rank is this process's, and to be recorded."""
        content = self.report.content
        if content["rank"] is not None:
            return not content["excluded"] and not content["duplicate"]
        rank, world = rank_and_world(self.torch)
        content["rank"], content["world"] = rank, world
        if self.settings["hook"]:
            attempt(hide_from_children, self.settings["hook"])
        if not self.is_chosen(rank):
            content["excluded"], self.off = True, True
            self.report.write()
            return False
        holder = self.report.claim(rank)
        if holder is not None and not self.takes_over(rank, *holder):
            self.leave_to(rank, *holder)
            return False
        self.report.write()
        return True

    def is_to_be_recorded(self):
        """Whether a cycle of the program's own profiler is to be taken."""
        if not self.recordable() or self.report.content["excluded"] or self.report.content["duplicate"]:
            return False
        return self.claim_rank() and not self.is_full()

    def is_chosen(self, rank):
        chosen = self.settings["ranks"]
        return chosen is None or any(first <= rank <= last for first, last in chosen)

    def takes_over(self, rank, holder, lives):
        """Whether this process records in the place of another one of its rank."""
        return False

    def leave_to(self, rank, holder, lives):
        """The rank is another process's: an earlier one that has ended is no mistake."""
        self.off = True
        process = holder.rpartition(".")[2]
        if not lives:
            self.report.note(
                "process {} already recorded this rank: of programs that run one after another, only the first is "
                "recorded. To record another program, put `etlink record` with another -o before it".format(process)
            )
            return
        self.report.content["duplicate"] = True
        self.report.note(
            "rank {} is already process {}; of two processes with one rank, only the first is "
            "recorded: set RANK in each".format(rank, process)
        )

    def finish(self):
        """Ends the cycle and puts its files in place; signals wait until that is done."""
        try:
            with deferred():
                why = self.save()
        finally:
            # after `deferred`, which puts back the handlers that it has found
            self.leave_signals()
        if why is not None:
            self.fail(why)

    def save(self):
        """Why the cycle is lost, or None."""
        with self.saving:
            window = self.window
            try:
                if window is not None:
                    self.keep(window)
                return None
            except Exception as error:
                self.off = True
                attempt(window.abandon)
                if is_programs(error):
                    raise
                return describe(error)
            finally:
                self.window = None

    def leave_signals(self):
        termination, self.termination = self.termination, None
        if termination is not None:
            attempt(termination.uninstall)

    def keep(self, window):
        recorded = window.close()
        if recorded is None:
            window.discard()
            return
        made = self.made if window.phase is None else self.phases.made[window.phase]
        self.publish(window, recorded, made > recorded[1], False)

    def keep_own(self, cycle):
        """Puts the traces of a cycle of the program's own profiler in place; signals wait until that is done."""
        with self.saving, deferred():
            self.publish(cycle, cycle.recorded(), cycle.whole, True)

    def next_folder(self, first):
        """Of the cycle that is published next; `first`: its first step."""
        return "cycle_{}".format(self.cycle) if self.cycle else ""

    def publish(self, window, recorded, is_whole, is_own):
        rank = self.report.content["rank"]
        folder = self.next_folder(recorded[0])
        names = [os.path.join(folder, "{}_{}.json".format(kind, rank)) for kind in files.KINDS]
        traces = list(zip((window.host, window.device), names))
        beside = {
            kind: (source, os.path.join(folder, files.BESIDE[kind](rank)))
            for kind, source in self.files_beside(window).items()
        }
        try:
            files.publish(self.settings, traces, list(beside.values()))
        except BaseException:
            for source, _ in beside.values():
                attempt(os.remove, source)
            raise
        self.cycle += 1
        self.report.content["cycles"].append(
            {
                "first_step": recorded[0],
                "last_step": recorded[1],
                "host_steps": window.host_steps(),
                "own_profiler": is_own,
                "phase": window.phase,
                "whole": is_whole,
                "lost": lost_parts(window),
                "host_trace": names[0],
                "device_trace": names[1],
                **{kind: beside[kind][1] if kind in beside else None for kind in files.BESIDE},
                "begin": window.begin,
                "end": window.end,
                "clock": clock(),
            }
        )
        self.report.content["step_times"] = attempt(self.times.summary)
        self.report.write()
        if self.published is not None:
            attempt(self.published)

    def files_beside(self, window):
        """What there is beside the traces of a cycle, as files of the work folder. Traces are whole without them."""
        found, dump = {}, self.report.path("flight")
        if attempt(flight_recorder.dump, self.torch, dump):
            found["flight_recorder"] = dump
        else:
            # a full disk may have left a part of it
            attempt(os.remove, dump)
        if window.snapshot is not None and window.snapshot.is_taken:
            found["memory_snapshot"] = window.snapshot.path
        return found

    @guarded
    def leave(self):
        """The process ends."""
        if os.getpid() != self.report.pid:
            return
        self.report.write_count(self.made)
        if self.own is not None:
            self.own.leave()
        if self.window is not None:
            if self.report.content["rank"] is None:
                self.abandon()
            else:
                self.finish()
        content = self.report.content
        if self.made and self.phases is not None:
            self.phases.note_missing()
        if self.made and content["rank"] is None and not self.closed:
            content["rank"], content["world"] = rank_and_world(self.torch)
        content["step_times"] = self.times.summary()
        content["trained_in_fork"] = bool(attempt(os.path.exists, self.report.path(forks.WORD)))
        if self.made or content["trained_in_fork"]:
            self.report.write()

    def resume(self, earlier):
        """Goes on after a recording of this process into the same folder, which has ended."""
        content = earlier.report.content
        self.made, self.cycle, self.shown = earlier.made, earlier.cycle, earlier.shown
        self.report.content.update(cycles=content["cycles"], notes=content["notes"], lacks=content["lacks"])

    def close(self):
        """Nothing counts any more."""
        self.off, self.closed, self.idle_until = True, True, 0

    @guarded
    def note_end(self):
        """Whose steps these were, and why there is no trace, where nothing else kept it from being made."""
        content, schedule = self.report.content, self.settings["schedule"]
        if content["rank"] is None:
            content["rank"], content["world"] = rank_and_world(self.torch)
        if self.phases is not None:
            self.phases.note_missing()
        if content["cycles"] or content["notes"] or content["excluded"]:
            return
        if schedule is None:
            self.report.note("nothing was recorded: the program's own profiler did not record")
            return
        first = schedule["skip_first"] + schedule["warmup"]
        first += 0 if schedule["skip_first_wait"] else schedule["wait"]
        plural = "" if self.made == 1 else "s"
        self.report.note(
            "nothing was recorded: the program made {} step{}{}, but recording starts at step {} "
            "(steps count from 0); choose a smaller wait, warmup or skip_first".format(
                self.made, plural, self.counted(), first
            )
        )

    def counted(self):
        """What the steps were, as the summary of `etlink record` says it."""
        name, step_on = self.report.content.get("counted"), self.settings["step_on"]
        if name is None:
            return ""
        if step_on.startswith("annotation:"):
            return " (ranges of {})".format(name)
        return " (calls of {}{})".format(name, ".step" if step_on == "optimizer" else "")

    def complete(self):
        """What the launcher does otherwise: traces are packed, shown in TensorBoard, and replace old ones."""
        output, cycles = self.settings["output"], self.report.content["cycles"]
        if self.settings["options"]["gzip"]:
            for cycle in cycles:
                for kind in ("host_trace", "device_trace"):
                    cycle[kind] = files.packed_name(output, cycle[kind])
        if self.settings["tensorboard"]:
            for cycle in cycles[self.shown :]:
                trace = os.path.join(output, cycle["device_trace"])
                files.show(trace, self.settings["tensorboard"], self.report.content["rank"])
            self.shown = len(cycles)
        names = [cycle[kind] for cycle in cycles for kind in files.OF_CYCLE if cycle[kind] is not None]
        # a rank that is not to be recorded any more has none to keep beside the others' new ones
        if names or self.report.content["excluded"]:
            # the list is made before the rank may be known: another rank's files are new by now
            own = files.file_names(self.report.content["rank"])
            for name in set(self.settings.get("old", [])).difference(names):
                if os.path.basename(name) in own:
                    attempt(os.remove, os.path.join(output, name))

    def process(self):
        """What the manifest says of this process."""
        return dict(self.report.content, steps=self.made, lost=False)

    def begin_as_child(self):
        """Whether this forked child is a process of its own from now on, which makes steps."""
        try:
            if not self.heir.is_recorded():
                if self.heir.is_helper():
                    self.heir = None
                return False
            # from the start, with files of its own
            self.__init__(self.torch, self.settings, self.heir.report())
            return True
        except Exception as error:
            if is_programs(error):
                raise
            self.heir = None
            attempt(self.close)
            return False

    def heir_of_parent(self):
        """Of a process that has made no step and is not recorded: a launcher of ranks or engines, perhaps."""
        if self.closed or self.off or self.made or self.has_profiled or self.phases is not None:
            return self.heir
        return forks.Heir(self) if self.settings["hook"] and self.window is None else None

    @silent
    def forked(self):
        """In a forked child, such as a worker of a DataLoader: the observer would write into the parent's file."""
        attempt(signals.forked)
        self.heir = self.heir_of_parent()
        self.close()
        if self.own is not None:
            attempt(self.own.forked)
        if self.termination is not None:
            attempt(self.termination.forked)
        # kept: its end would be that of the parent's recording
        self.detached, self.window = self.window, None
        if self.detached is not None:
            attempt(self.detached.detach)
            attempt(clear_callbacks)
        if self.has_profiled:
            end_without_destructors()

    @guarded
    def foreign(self, _):
        """A profiler of the program is about to warm up or to record, or its observer is registered: there can be only one."""
        if not self.off and os.getpid() == self.report.pid:
            self.fail("the program uses the profiler itself: from here on, etlink does not record")

    def yield_to_program(self):
        """From here on the program's own profiler decides what is recorded."""
        self.give_up_window("the program started a profiler of its own")
        self.off, self.has_profiled = True, True

    def give_up_window(self, why):
        """The cycle that is recorded by the schedule, if there is one."""
        if self.window is not None:
            self.fail(why + ": the current cycle of --wait, --warmup and --active is discarded")

    def fail(self, why):
        """Ends the recording. Never raises."""
        self.off = True
        self.abandon()
        attempt(self.report.note, why)

    def abandon(self):
        """The window, if there is one, leaves no trace."""
        window, self.window = self.window, None
        attempt(self.leave_signals)
        if window is not None:
            attempt(window.abandon)
