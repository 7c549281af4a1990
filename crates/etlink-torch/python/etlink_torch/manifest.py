"""`etlink.json` for recordings without a launcher: each rank adds itself when it ends."""

import contextlib
import glob
import json
import os

from . import __version__


def recorded_files(folder, rank):
    """The files that a recording has left of a rank."""
    names = ["{}_{}.json{}".format(kind, rank, packed) for kind in ("torch_et", "kineto_trace") for packed in ("", ".gz")]
    places = [folder, *sorted(glob.glob(os.path.join(glob.escape(folder), "cycle_*")))]
    return [path for place in places for path in (os.path.join(place, name) for name in names) if os.path.exists(path)]


@contextlib.contextmanager
def alone(folder):
    """One process at a time."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def update(settings, process, command):
    """Adds a process that has ended, in the place of an earlier one of its rank."""
    path = os.path.join(settings["output"], "etlink.json")
    with alone(settings["output"]):
        ranks = [rank for rank in read(path) if rank.get("rank") is None or rank["rank"] != process["rank"]]
        ranks.append(process)
        ranks.sort(key=lambda rank: (rank["rank"] is None, rank["rank"], rank["pid"]))
        manifest = {
            "etlink": __version__,
            "command": list(command),
            "ended": None,
            "schedule": settings["schedule"],
            "step_on": settings["step_on"] or "prof.step()",
            "asked_ranks": settings["ranks"],
            "options": settings["options"],
            "ranks": ranks,
            "notes": notes(ranks),
        }
        temporary = os.path.join(settings["work"], "{}.manifest".format(process["pid"]))
        with open(temporary, "w") as file:
            json.dump(manifest, file, indent=2)
            file.write("\n")
        os.replace(temporary, path)


def read(path):
    try:
        with open(path) as file:
            return json.load(file)["ranks"]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def notes(ranks):
    """What is missing or odd, each once."""
    found = []
    for rank in ranks:
        name = "process {}".format(rank["pid"]) if rank["rank"] is None else "rank {}".format(rank["rank"])
        found += ["{}: {}".format(name, note) for note in rank["notes"]]
        found += ["PyTorch {} lacks {}: recorded without".format(rank["torch"], feature) for feature in rank["lacks"]]
        found += ["{}: the recording ended in step {}, which is recorded as far as it went".format(name, cycle["last_step"]) for cycle in rank["cycles"] if not cycle["whole"]]
    return list(dict.fromkeys(found))
