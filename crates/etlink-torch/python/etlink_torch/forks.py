"""Forked children of a process that makes no steps itself: ranks, or engines that serve, which are recorded like others."""

import os

from .files import hold_shared
from .guard import attempt
from .process import RANK_VARIABLES, first_number
from .report import Report


WORD = "forked"
"""How the file ends by which children leave word of steps that are not recorded."""


class Heir:
    """What a forked child needs to record by itself. Most children are workers and helpers, and never do."""

    def __init__(self, session):
        content = session.report.content
        self.torch, self.settings, self.parent = session.torch, session.settings, session.report.pid
        self.versions = {name: content[name] for name in ("torch", "device", "nccl")}
        # a function that counts is wrapped already
        self.counted, self.rank = content.get("counted"), first_number(RANK_VARIABLES)
        self.had_group = has_group(self.torch)
        # a child of a child has it from the first one
        self.word, self.has_noted = session.report.path(WORD), False

    def is_recorded(self):
        """Whether its steps are those of a rank, or of an engine; helpers of a rank may train and call models too."""
        if self.is_helper():
            return False
        if has_group(self.torch) or first_number(RANK_VARIABLES) != self.rank:
            return True
        # others may be helpers of a parent that trains later: a name says what is meant
        if self.settings["step_on"] not in ("forward", "optimizer"):
            return True
        # a batch script of SLURM has a rank, and may start what it likes
        return self.settings["step_on"] == "optimizer" and self.rank is None and is_gone(self.parent)

    def is_helper(self):
        """Of a rank, for as long as it lives."""
        return self.torch.utils.data.get_worker_info() is not None or self.had_group

    def note_step(self):
        """Leaves word that this child makes steps which are not recorded. Only its parent can say so at the end."""
        if not self.has_noted:
            self.has_noted = True
            with open(self.word, "w"):
                pass

    def report(self):
        # a daemon has closed what kept the folder, and its launcher has removed that at its end
        os.makedirs(self.settings["work"], exist_ok=True)
        held = attempt(hold_shared, os.path.join(self.settings["work"], "running"))
        report = Report(self.settings, self.versions)
        if self.counted is not None:
            report.content["counted"] = self.counted
        report.held = held
        return report


def is_gone(pid):
    """Whether a process has ended, as that which starts a daemon."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def has_group(torch):
    distributed = torch.distributed
    return distributed.is_available() and distributed.is_initialized()
