"""The texts next to the recordings: RECIPE in every case folder, and the table of all cases."""

from pathlib import Path

import catalog
from catalog import Case
from pair import Figures

BEGIN = "<!-- pairs: written by record.py -->\n"
END = "<!-- end of pairs -->\n"


def recipe(case: Case, installed: dict[str, str], version: str, found: list[Figures]) -> str:
    """The RECIPE of one recorded case."""
    schedule = "wait 1, warmup 1, active 2, one cycle" if case.scheduled else "none: start, two calls, stop"
    out = "testdata/averages --averages" if case.averages else "testdata/pairs"
    out = "testdata/flight --flight" if case.flight else out
    command = f"python3 crates/etlink-dev/recipes/record.py --out {out} --torch {version}"
    lines = [
        f"case      {case.name}",
        f"shows     {case.shows}",
        f"model     {case.model}",
        f"torch     {installed['torch']} from PyPI, CPU only",
        f"python    {installed['python']}",
        *([f"schema    {found[0].schema}", f"schedule  {schedule}"] if found else []),
        f"ranks     {case.ranks}" + (f", backend {case.backend}" if case.backend else ""),
        f"command   {command} --case {case.name}",
    ]
    lines += [f"rank {rank}    {figures.line()}" for rank, figures in enumerate(found)]
    return "\n".join(lines) + "\n"


def fields(text: str) -> dict[str, str]:
    """A RECIPE read back: first word of each line to the rest of it."""
    return dict(line.split(maxsplit=1) for line in text.splitlines() if line.strip())


def row(folder: Path) -> str:
    """The table row of one case folder."""
    of = fields((folder / "RECIPE").read_text())
    size = sum(file.stat().st_size for file in folder.glob("*.gz"))
    cells = [f"`{folder.name}`", of["shows"], of["torch"].split()[0], of["schema"], of["ranks"]]
    return "| " + " | ".join([*cells, f"{size / 1024:.0f} KiB"]) + " |\n"


def order(folder: Path) -> tuple:
    """Newest PyTorch first, then the order of the catalogue."""
    name, _, version = folder.name.rpartition("-")
    names = [case.name for case in catalog.CASES]
    newest_first = tuple(-part for part in catalog.version_key(version))
    return newest_first, names.index(name) if name in names else len(names)


def update(pairs: Path) -> None:
    """Renew the table in the README.md beside the folder of pairs, between its two marks."""
    path = pairs.parent / "README.md"
    if not path.exists() or BEGIN not in (text := path.read_text()):
        return
    folders = sorted((recipe.parent for recipe in pairs.glob("*/RECIPE")), key=order)
    table = "| case | shows | torch | schema | ranks | size |\n|---|---|---|---|---|---|\n"
    table += "".join(row(folder) for folder in folders)
    before, rest = text.split(BEGIN, 1)
    path.write_text(before + BEGIN + table + END + rest.split(END, 1)[1])
