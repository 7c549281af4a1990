"""The recording of a profiler or callback of a training framework: opened with the first phase, closed with the process."""

import os

from . import at_end
from .context import Recording
from .guard import attempt


class PhaseRecorder:
    def __init__(self, output, schedules, options):
        self.recording, self.pid = Recording(output, phases=schedules, **options), None

    def open(self):
        """Before the first batch. Raises FileExistsError where a recording is there already."""
        if self.pid == os.getpid():
            return
        self.pid = os.getpid()
        self.recording.__enter__()
        if self.recording.session is not None:
            self.recording.session.published = self.recording.folder.write_manifest
            at_end.call(self.close)

    @property
    def phases(self):
        session = self.recording.session
        return None if session is None else session.phases

    @property
    def notes(self):
        return self.recording.notes

    def close(self):
        if self.pid == os.getpid():
            self.pid = None
            attempt(self.recording.end)
