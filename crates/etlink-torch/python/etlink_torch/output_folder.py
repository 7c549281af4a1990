"""The output folder of a recording that no launcher watches: this process makes it, shares it with other ranks, and ends it."""

import os
import sys

from . import files, hook, host_clock, manifest
from .guard import attempt
from .process import rank_and_world
from .report import Report, join_folder
from .session import Session


class OutputFolder:
    """`kind`: the class of its session."""

    def __init__(self, torch, settings, kind=Session):
        self.settings = settings
        for folder in (settings["work"], settings["tensorboard"]):
            if folder:
                os.makedirs(folder, exist_ok=True)
        held = attempt(join_folder, settings["work"])
        settings["clock"] = attempt(host_clock.measure, settings["work"])
        self.report = Report(settings, hook.versions(torch))
        self.report.held = held
        try:
            self.session = kind(torch, settings, self.report)
        except BaseException:
            self.leave()
            raise

    def old_files(self):
        """What an earlier recording left of this rank."""
        rank = rank_and_world(self.session.torch)[0]
        return files.recorded_files(self.settings["output"], rank)

    def list_old(self, old):
        """Names the files that the first new trace of this rank replaces."""
        self.settings["old"] = [os.path.relpath(path, self.settings["output"]) for path in old]

    def write_manifest(self):
        manifest.update(self.settings, self.session.process(), sys.argv)

    def end(self):
        """Puts all in its place. Raises; `leave` is to be called in any case."""
        self.session.note_end()
        self.session.complete()
        self.write_manifest()

    def leave(self):
        """Removes what only the recording needed, and the work folder if no other rank uses it."""
        self.report.remove()
