"""`etlink.json`, written by the processes themselves: of recordings without a launcher, and of one that has ended."""

import json
import os

from . import __version__
from .files import locked, write_whole
from .masking import masked_command


NOTHING = "nothing was recorded: the program"
"""How notes of a launcher begin that knows of no process."""
EXEC = "another program (exec)"
"""Notes of what became another program, or tried to, have this."""


def update(settings, process, command):
    """Adds a process that has ended, in the place of an earlier one of its rank."""
    path = os.path.join(settings["output"], "etlink.json")
    with locked(settings["work"]):
        manifest = read(path)
        ranks = [rank for rank in manifest.get("ranks", []) if is_other(rank, process)]
        ranks.append(process)
        ranks.sort(key=lambda rank: (rank["rank"] is None, rank["rank"], rank["pid"]))
        if settings["hook"]:
            manifest.update(ranks=ranks, notes=with_notes(manifest.get("notes", []), process))
        else:
            manifest = own_manifest(settings, ranks, command)
        write_whole(path, json.dumps(manifest, indent=2) + "\n")


def is_other(rank, process):
    if rank.get("launcher") == process["launcher"] and rank["pid"] == process["pid"]:
        return False
    return rank.get("rank") is None or rank["rank"] != process["rank"]


def own_manifest(settings, ranks, command):
    return {
        "etlink": __version__,
        "command": masked_command(command),
        "ended": None,
        "schedule": settings["schedule"],
        "armed": settings.get("armed"),
        **({"phases": settings["phases"]} if settings.get("phases") else {}),
        "step_on": settings["step_on"] or "prof.step()",
        "asked_ranks": settings["ranks"],
        "options": settings["options"],
        "ranks": ranks,
        "notes": list(dict.fromkeys(note for rank in ranks for note in notes(rank))),
    }


def with_notes(earlier, process):
    """What the launcher noted, but that this process was still running, or that there was none."""
    wrong = ["process {} is still running".format(process["pid"])]
    if process["cycles"]:
        wrong.append(NOTHING)
    kept = [note for note in earlier if not any(part in note for part in wrong)]
    return list(dict.fromkeys(kept + notes(process)))


def read(path):
    try:
        with open(path) as file:
            manifest = json.load(file)
        return manifest if isinstance(manifest.get("ranks"), list) else {}
    except (OSError, ValueError, AttributeError):
        return {}


def notes(rank):
    """What is missing or odd."""
    known = rank["rank"] is not None
    name = "rank {}".format(rank["rank"]) if known else "process {}".format(rank["pid"])
    found = ["{}: {}".format(name, note) for note in rank["notes"]]
    for feature in rank["lacks"]:
        found.append("PyTorch {} lacks {}: recorded without it".format(rank["torch"], feature))
    for cycle in rank["cycles"]:
        # what became another program, or tried to, says so in a note of its own
        if not cycle["whole"] and not any(EXEC in note for note in rank["notes"]):
            found.append(
                "{}: the recording ended in step {}, which is recorded up to its end".format(
                    name, cycle["last_step"]
                )
            )
    return found
