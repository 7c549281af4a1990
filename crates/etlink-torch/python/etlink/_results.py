"""Results of a run: a replay, a comparison, a page."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ._error import Error
from ._files import written_beside
from ._table import Table

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Diagnostic:
    """A fact about files or results.

    code: stable name of the kind of fact, such as `two_runs`
    severity: `info`, `warning`, `damage` or `error`
    message: the fact in words
    remedy: an action that removes the cause, or None
    runs, ranks, files: those that the fact is about, if they are not all
    """

    code: str
    severity: str
    message: str
    remedy: str | None = None
    runs: Sequence[str] = ()
    ranks: Sequence[int] = ()
    files: Sequence[str] = ()

    def __str__(self) -> str:
        runs = _subject("runs", self.runs)
        follow = all(one + 1 == other for one, other in zip(self.ranks, self.ranks[1:], strict=False))
        names = [*(f"rank {rank}" for rank in self.ranks), *self.files]
        traces = _subject("traces", names, follow and not self.files)
        # `two_runs` is not an anomaly of a file
        is_damage = self.severity == "damage" and self.code != "two_runs"
        text = f"{runs}{traces}{'damage: ' if is_damage else ''}{self.message}"
        return f"{text}; {self.remedy}" if self.remedy else text


def _subject(kind: str, names: Sequence[str], follow: bool = False) -> str:
    """Returns the first few names, or the first and the last if they `follow` each other."""
    first = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    if follow and len(names) > 2:
        first = f"{names[0]} … {names[-1]}"
    if len(names) > 1:
        return f"{len(names)} {kind} ({first}): "
    return f"{first}: " if names else ""


def read_diagnostics(text: str) -> list[Diagnostic]:
    """Returns the diagnostics in JSON of the extension module."""
    return [_diagnostic(told) for told in json.loads(text)]


def _diagnostic(told: dict[str, Any]) -> Diagnostic:
    # tuples, so that diagnostics can be in sets
    lists = {name: tuple(value) for name, value in told.items() if isinstance(value, list)}
    return Diagnostic(**{**told, **lists})


class RunTables(Mapping[str, Table]):
    """Tables by name.

    diagnostics: facts about the traces, such as damage and omitted ranks
    """

    def __init__(self, tables: list[Table], diagnostics: list[Diagnostic]) -> None:
        self._tables = {table.name: table for table in tables}
        self.diagnostics = diagnostics

    def __getitem__(self, name: str) -> Table:
        if name not in self._tables:
            names = ", ".join(self._tables)
            raise KeyError(f"unknown table {name}; tables are {names}")
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __repr__(self) -> str:
        return f"<etlink.RunTables {', '.join(self._tables)}>"


class Replay:
    """A replay of the graph by its edges and durations.

    data: the output of `etlink replay --json`
    critical_path: the nodes of the critical path, in order
    """

    def __init__(self, text: str, critical_path: Table) -> None:
        self.data: dict[str, Any] = json.loads(text)
        self.critical_path = critical_path

    @property
    def makespan_ns(self) -> int:
        """Time from the first start to the last end of work, ns, with the requested changes."""
        changed = self.data["what_if"]
        if changed is None:
            return int(self.data["figures"]["replayed_ns"])
        return int(changed["makespan_ns"])

    @property
    def change_ns(self) -> int:
        """Increase of the makespan by the changes, ns; 0 without changes."""
        changed = self.data["what_if"]
        return 0 if changed is None else int(changed["change_ns"])

    @property
    def range_ns(self) -> tuple[int, int] | None:
        """Smallest and largest change that the recording allows, ns; None without changes."""
        changed = self.data["what_if"]
        if changed is None:
            return None
        answer = changed["range"]
        return int(answer["least_change_ns"]), int(answer["most_change_ns"])

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Facts about the traces and the replay."""
        return [_diagnostic(told) for told in self.data["diagnostics"]]

    def __repr__(self) -> str:
        change = "" if self.data["what_if"] is None else f", changed by {self.change_ns / 1e6:+.3f} ms"
        return f"<etlink.Replay {self.data['input']}: {self.makespan_ns / 1e6:.3f} ms{change}>"


class Diff:
    """Changes from one run to another.

    data: the output of `etlink diff --json`
    sentences: the main changes
    """

    def __init__(self, text: str, sentences: list[str], tables: list[Table]) -> None:
        self.data: dict[str, Any] = json.loads(text)
        self.sentences = sentences
        self._tables = {table.name: table for table in tables}

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return list(self._tables)

    def table(self, name: str) -> Table:
        """Returns a table: "changes" (ops and kernels), "classes", "ops" (with the work that they
        launch) or "waiting"."""
        if name not in self._tables:
            names = ", ".join(self._tables)
            raise Error(f"unknown table {name}; tables of two runs are {names}")
        return self._tables[name]

    def __repr__(self) -> str:
        return "\n".join(["etlink.Diff", *self.sentences])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in self.sentences)
        return f"<ul>{items}</ul>"


class Report:
    """The page about a run. A notebook shows it; `save` writes it.

    html: the whole page, which loads nothing
    """

    def __init__(self, name: str, page: bytes) -> None:
        self.name, self.html = name, page.decode()

    def save(self, path: Path, overwrite: bool = False) -> None:
        """Writes the page. An existing page stays until the new one is complete."""
        try:
            with written_beside(os.fspath(path), overwrite) as beside:
                with open(beside, "w", encoding="utf-8") as out:
                    out.write(self.html)
        except FileExistsError:
            text = os.fspath(path)
            remedy = "choose another name, or give overwrite=True"
            raise Error(f"{text} already exists; {remedy}", file=text, remedy=remedy) from None
        except OSError as error:
            text = os.fspath(path)
            raise Error(f"cannot write {text}: {error.strerror}", file=text) from None

    def __repr__(self) -> str:
        return f"<etlink.Report {self.name}: {len(self.html)} characters>"

    def _repr_html_(self) -> str:
        # a frame separates styles and scripts of the page and the notebook
        page = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:800px;border:0"></iframe>'
