"""A snapshot of the memory of CUDA devices: who allocated what during the recorded steps. https://pytorch.org/memory_viz shows it."""

import functools
import os

from .guard import attempt, describe

MOST_ENTRIES = 100_000
"""Allocations and frees of which PyTorch keeps the latest; of more than that, the first ones are missing."""
WITHOUT_CUDA = "memory snapshots of this process, which does not use CUDA"
"""What no PyTorch has, as the manifest says it."""


def file_name(rank):
    return "memory_snapshot_{}.pickle".format(rank)


class MemorySnapshot:
    """Of one cycle, from `start` to `take`. Neither raises: traces are whole without a snapshot."""

    def __init__(self, torch, report, path):
        self.torch, self.report, self.path = torch, report, path
        self.is_recording, self.is_ours, self.is_taken, self.is_lost = False, False, False, False
        # PyTorch's function, and what stands in its place
        self.original = self.replaced = None

    def start(self):
        """Before the first recorded step. CUDA that the program has not started is not started here."""
        try:
            if not self.torch.cuda.is_initialized():
                self.report.lacks(WITHOUT_CUDA)
                return
            # a program that records allocations itself goes on with it: the snapshot has what it recorded
            self.is_ours = not self.torch._C._cuda_isHistoryEnabled()
            if self.is_ours:
                self.record("all", stacks="python", max_entries=MOST_ENTRIES)
                self.watch_program()
            self.is_recording = True
        except Exception as error:
            self.give_up(error)

    def take(self):
        """After the last recorded step."""
        if not self.is_recording:
            return
        try:
            self.torch.cuda.memory._dump_snapshot(self.path)
            self.is_taken = True
        except Exception as error:
            self.give_up(error)
        finally:
            self.stop()

    def stop(self):
        """Nothing is recorded any more, unless the program records by itself."""
        attempt(self.leave_program)
        if self.is_recording and self.is_ours:
            attempt(self.record, None)
        self.is_recording = False

    def watch_program(self):
        """The program may begin to record while we do; then it is not ours to stop."""
        memory = self.torch.cuda.memory
        original = memory._record_memory_history

        @functools.wraps(original)
        def wrapper(*arguments, **named):
            self.is_ours = False
            return original(*arguments, **named)

        self.original, self.replaced = original, wrapper
        memory._record_memory_history = wrapper

    def leave_program(self):
        memory = self.torch.cuda.memory
        if self.replaced is not None and memory._record_memory_history is self.replaced:
            memory._record_memory_history = self.original
        self.replaced = None

    def record(self, enabled, **options):
        # in PyTorch since 2.1, under this name alone
        self.torch.cuda.memory._record_memory_history(enabled, **options)

    def give_up(self, error):
        self.is_lost = True
        attempt(self.discard)
        self.report.note("the memory snapshot of a cycle is missing: {}".format(describe(error)))

    def discard(self):
        """Leaves no file; what was taken is not published."""
        self.is_taken = False
        if os.path.exists(self.path):
            os.remove(self.path)
