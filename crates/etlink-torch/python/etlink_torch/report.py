"""What the process tells the launcher: one JSON file, rewritten when something happens, and the number of steps."""

import json
import os
import platform
import socket


class Report:
    """The files `<pid>.json` and `<pid>.steps` in the launcher's folder."""

    def __init__(self, folder, versions):
        self.pid, self.folder = os.getpid(), folder
        self.content = {
            "pid": self.pid,
            "host": socket.gethostname(),
            "python": platform.python_version(),
            "torch": versions["torch"],
            "device": versions["device"],
            "rank": None,
            "world": None,
            "excluded": False,
            "cycles": [],
            "lacks": [],
            "notes": [],
        }
        self.counter = os.open(self.path("steps"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self.write()

    def path(self, ending):
        return os.path.join(self.folder, "{}.{}".format(self.pid, ending))

    def steps(self, number):
        os.pwrite(self.counter, b"%d" % number, 0)

    def note(self, text):
        if text not in self.content["notes"]:
            self.content["notes"].append(text)
            self.write()

    def lacks(self, feature):
        if feature not in self.content["lacks"]:
            self.content["lacks"].append(feature)

    def write(self):
        temporary = self.path("json.new")
        with open(temporary, "w") as file:
            json.dump(self.content, file)
        os.replace(temporary, self.path("json"))

    def remove(self):
        """Leaves nothing behind but what others still need."""
        os.close(self.counter)
        paths = [self.path("json"), self.path("steps")]
        claim = os.path.join(self.folder, "rank_{}".format(self.content["rank"]))
        if os.path.exists(claim):
            with open(claim) as file:
                paths += [claim] if file.read() == str(self.pid) else []
        for path in paths:
            os.remove(path)
        try:
            os.rmdir(self.folder)
        except OSError:
            pass

    def claim(self, rank):
        """None if the rank is this process's alone, else the process that has it."""
        path = os.path.join(self.folder, "rank_{}".format(rank))
        try:
            with open(path, "x") as file:
                file.write(str(self.pid))
            return None
        except FileExistsError:
            with open(path) as file:
                holder = file.read()
            if not self.died_in_vain(holder):
                return holder or "?"
            # launchers start ranks again
            with open(path, "w") as file:
                file.write(str(self.pid))
            return None

    def died_in_vain(self, pid):
        """Whether the process is gone and left no trace."""
        try:
            os.kill(int(pid), 0)
            return False
        except ProcessLookupError:
            with open(os.path.join(self.folder, "{}.json".format(pid))) as file:
                return not json.load(file)["cycles"]
        except (OSError, ValueError):
            return False
