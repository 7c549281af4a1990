"""A run: the ranks of one execution of a program."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import _etlink
from ._error import Error
from ._results import Diagnostic, Diff, Replay, Report, read_diagnostics
from ._urls import LocalCopies
from ._table import Table, html_table

UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
SHOWN_FINDINGS = 3
SHOWN_RANKS = 16

Path = str | os.PathLike[str]


def open(
    path: Path | Sequence[Path],
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    strict: bool = False,
    cache: Path | None = None,
    overhead: str | None = None,
) -> Run:
    """Opens a run. Traces are read on first use, each once.

    path: a folder with the traces of all ranks, one trace, or a list of traces; may be a URL
    ranks: ranks of a folder or a list to read; None: all
    memory: memory limit in bytes, or a text such as "16G"; None: the memory available
    strict: leave out damaged traces, and pairs of traces from two runs
    cache: a folder that keeps parsed traces for later sessions
    overhead: "keep" the overhead of recording in host times, "remove" it, or remove it until a step
        takes its known time, such as "25.9ms"; None: analyses remove it if recording slowed the host
        down much and the program has one rank

    Raises Error if there is no run: a file is missing, or a folder has no traces or several runs.
    """
    is_list = not isinstance(path, (str, os.PathLike))
    if is_list and not isinstance(path, Sequence):
        # the columns of a DataFrame would be taken for paths
        raise TypeError(f"open takes a path or a list of paths, not {type(path).__name__}")
    listed = list(path) if not isinstance(path, (str, os.PathLike)) else [path]
    if is_list and not listed:
        raise Error("no traces in the list; give a folder, a trace or a list of traces")
    paths = [_path_text(one) for one in listed]
    chosen, most = _rank_list(ranks), _bytes(memory)
    copies = LocalCopies()
    paths = [copies.local_path(one) for one in paths]
    kept = None if cache is None else _path_text(cache)
    return Run(_Opening(paths, is_list, chosen, most, bool(strict), kept, overhead, copies))


class _Opening:
    """The arguments with which a run was opened, to open some of its ranks again."""

    def __init__(
        self,
        paths: list[str],
        is_list: bool,
        ranks: list[int] | None,
        memory: int | None,
        strict: bool,
        cache: str | None,
        overhead: str | None,
        copies: LocalCopies,
    ) -> None:
        self.paths, self.is_list, self.ranks = paths, is_list, ranks
        self.memory, self.strict, self.cache, self.overhead = memory, strict, cache, overhead
        # deleted with the last run that reads them
        self.copies = copies

    def handle(self) -> _etlink.RunHandle:
        ranks = None if self.ranks is None else ",".join(map(str, self.ranks))
        try:
            return _etlink.RunHandle(self.paths, self.is_list, ranks, *self._options())
        except Error as error:
            if not str(error).startswith("no traces for the ranks"):
                raise
            known = _etlink.RunHandle(self.paths, self.is_list, None, *self._options()).ranks
            names = ", ".join(label for label, _, _, _ in known[:SHOWN_RANKS])
            remedy = f"its ranks are {names}"
            raise Error(f"{error}; {remedy}", file=error.file, remedy=remedy) from None

    def _options(self) -> tuple[int | None, bool, str | None, str | None]:
        return self.memory, self.strict, self.cache, self.overhead

    def of_rank(self, rank: int) -> _Opening:
        return _Opening(self.paths, self.is_list, [rank], *self._options(), self.copies)

    def of_files(self, paths: list[str]) -> _Opening:
        return _Opening(paths, True, None, *self._options(), self.copies)

    def name(self) -> str:
        return f"{len(self.paths)} files" if self.is_list else self.paths[0]


class Run:
    """A run opened by `etlink.open`.

    `len(run)` is the number of ranks, `run[3]` the run of rank 3 alone, and iteration gives such a
    run per rank. A notebook shows the first findings and a table of ranks. `close()`, or the end of
    a `with`, frees the memory.
    """

    def __init__(self, opening: _Opening) -> None:
        if not isinstance(opening, _Opening):
            raise TypeError("create a Run with etlink.open()")
        self._opening = opening
        self._handle = opening.handle()

    @property
    def name(self) -> str:
        """Path of the folder or the trace, or the number of files."""
        return self._opening.name()

    @property
    def ranks(self) -> list[int | str]:
        """The ranks. The name of its trace replaces a number that no file states, or that several
        traces state."""
        rows = self._handle.ranks
        numbers = [number for _, number, _, _ in rows]
        return [
            label if number is None or numbers.count(number) > 1 else number
            for label, number, _, _ in rows
        ]

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Facts about the files and the data read so far, such as damage and omitted ranks."""
        return read_diagnostics(self._handle.diagnostics)

    @property
    def tables(self) -> list[str]:
        """Names of all tables, see `table`."""
        return self._handle.table_names()

    def table(self, name: str, *, sequences_of: str | None = None) -> Table:
        """Returns a table of all ranks.

        name: a table of `etlink analyze`, such as "kernels"; a list that another command prints
            with --json, such as "findings", "top" or "ranks.steps"; "events", "nodes", "edges",
            "collectives" or "kernel_metrics" of the recording and the graph. `tables` has all names.
        sequences_of: for the table "sequences": the outermost ops whose names contain this
        """
        if not isinstance(name, str):
            raise TypeError(f"the name of a table is a str, not {type(name).__name__}")
        return Table(self._handle.table(name, sequences_of))

    def findings(self) -> list[str]:
        """Returns the largest possible gains of the run.

        Each text has three lines: the cause with its gain, the evidence, and a remedy. Remarks on the whole run
        follow.
        """
        return self._handle.findings()

    def replay(
        self,
        scale: Mapping[str, float] | None = None,
        what_if: str | Iterable[str] = (),
    ) -> Replay:
        """Replays the graph, with or without changes.

        scale: factors of durations: {"class=gemm": 0.5}, {"kind=device": 2},
            {"rank=1/kind=host_op": 2}, or names of ops and kernels with the wildcards * and ?
        what_if: what-if questions by name, such as "no-sync"; see `etlink replay --help`
        """
        text, path = self._handle.replay(_scale_rules(scale), _questions(what_if))
        return Replay(text, Table(path))

    def critical_path(self) -> Table:
        """Returns the nodes of the critical path in order."""
        return self.replay().critical_path

    def diff(self, other: Run) -> Diff:
        """Compares this run with a later one."""
        if not isinstance(other, Run):
            raise TypeError(f"a run is compared with a Run, not {type(other).__name__}")
        text, sentences, tables = self._handle.diff(other._handle)
        return Diff(text, sentences, [Table(table) for table in tables])

    def report(self) -> Report:
        """Returns the HTML page about the run. A notebook shows it, and `save` writes it."""
        name = os.path.basename(os.path.normpath(self.name))
        return Report(name, self._handle.report(name))

    def to_chakra(
        self, folder: Path, simulator: str | None = None, overwrite: bool = False
    ) -> list[str]:
        """Writes a Chakra file per rank into a folder, and returns their paths.

        simulator: "astra-sim" also writes its configurations and a README
        overwrite: replace existing output, and files that an earlier run of this name wrote there
        """
        if simulator not in (None, "astra-sim"):
            raise Error(f"unknown simulator {simulator!r}; give 'astra-sim', or None")
        return self._handle.to_chakra(_path_text(folder), simulator is not None, bool(overwrite))

    def timeline(self, path: Path, overwrite: bool = False) -> None:
        """Writes a trace of all ranks for ui.perfetto.dev: "x.pftrace" or "x.trace.json",
        also with ".gz"."""
        self._handle.timeline(_path_text(path), bool(overwrite))

    def close(self) -> None:
        """Frees the memory. Existing tables stay valid."""
        self._handle.close()

    @property
    def closed(self) -> bool:
        """True if the run is closed."""
        return self._handle.closed

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._handle.ranks)

    def __iter__(self) -> Iterator[Run]:
        for rank in self.ranks:
            yield self[rank]

    def __getitem__(self, rank: int | str) -> Run:
        """Returns the run of one rank alone."""
        if isinstance(rank, bool) or not isinstance(rank, (int, str)):
            raise TypeError(f"a rank is an int or a str, not {type(rank).__name__}")
        ranks = self.ranks
        if rank not in ranks:
            names = ", ".join(map(repr, ranks[:SHOWN_RANKS]))
            # not an Error: `rank in run` and loops go by it
            raise IndexError(f"{self.name} has no rank {rank!r}; its ranks are {names}")
        if len(ranks) == 1:
            return self
        if isinstance(rank, int):
            return Run(self._opening.of_rank(rank))
        return self._by_files(ranks.index(rank))

    def _by_files(self, index: int) -> Run:
        """Opens the files of a rank that no number selects."""
        label, _, trace, host = self._handle.ranks[index]
        paths = [path for path in (trace, host) if path is not None]
        alone = Run(self._opening.of_files(paths))
        if len(alone) != 1:
            remedy = "open the traces of each rank separately"
            message = f"{self.name}: {label} cannot be distinguished from other ranks; {remedy}"
            raise Error(message, remedy=remedy)
        return alone

    def __contains__(self, rank: object) -> bool:
        return rank in self.ranks

    def __repr__(self) -> str:
        if self.closed:
            return f"<etlink.Run {self.name}: closed>"
        head = f"etlink.Run {self.name}: {self._rank_count()}"
        try:
            lines, columns = self._rank_lines()
            texts = self.findings()[:SHOWN_FINDINGS]
        except Error as error:
            # a failure to show the run must not break a notebook's cell
            return f"{head}\n{error}"
        numbered = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
        notes = [f"note: {told}" for told in self.diagnostics]
        return "\n".join([head, *numbered, *_text_table(lines, columns), *notes])

    def _repr_html_(self) -> str:
        if self.closed:
            return f"<p>{html.escape(repr(self))}</p>"
        head = f"<p><b>{html.escape(self.name)}</b>: {self._rank_count()}</p>"
        try:
            lines, columns = self._rank_lines()
            texts = self.findings()[:SHOWN_FINDINGS]
        except Error as error:
            return f"{head}<p>{html.escape(str(error))}</p>"
        items = "".join(f"<li>{html.escape(text).replace(chr(10), '<br>')}</li>" for text in texts)
        notes = "".join(f"<p>note: {html.escape(str(told))}</p>" for told in self.diagnostics)
        return f"{head}<ol>{items}</ol>{html_table(lines, columns)}{notes}"

    def _rank_count(self) -> str:
        return "1 rank" if len(self) == 1 else f"{len(self)} ranks"

    def _rank_lines(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Returns how busy each rank is, and how long the others waited for it."""
        lines = {
            line["rank"]: {"rank": line["rank"], "busy": _percent(line["busy_share"])}
            for line in self.table("ranks.utilization").to_pylist()
        }
        columns = ["rank", "busy"]
        if len(lines) > 1:
            columns += ["waited_ms", "made_others_wait_ms"]
            for line in self.table("ranks.ranks").to_pylist():
                shown = lines.setdefault(line["rank"], {"rank": line["rank"], "busy": ""})
                shown["waited_ms"] = f"{line['waited_ns'] / 1e6:.3f}"
                shown["made_others_wait_ms"] = f"{line['caused_ns'] / 1e6:.3f}"
        all_lines = [
            {column: line.get(column, "") for column in columns} for line in lines.values()
        ]
        return all_lines[:SHOWN_RANKS], columns


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _text_table(lines: list[dict[str, Any]], columns: list[str]) -> list[str]:
    rows = [columns, *([str(line[column]) for column in columns] for line in lines)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(columns))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]


def _path_text(path: Path) -> str:
    # the system accepts bytes as paths, but messages could not show them
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path is a str or an os.PathLike, not {type(path).__name__}")
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path is a str or an os.PathLike of it, not {type(text).__name__}")
    if text == "-":
        raise Error("only the command reads standard input; give the path of a file")
    return text if "://" in text else os.path.expanduser(text)


def _scale_rules(scale: Mapping[str, float] | None) -> list[str]:
    if scale is None:
        return []
    if not isinstance(scale, Mapping):
        example = '{"kind=host_op": 0.5}'
        raise TypeError(f"scale is a dict such as {example}, not {type(scale).__name__}")
    return [_scale_rule(nodes, factor) for nodes, factor in scale.items()]


def _questions(what_if: str | Iterable[str]) -> list[str]:
    questions = [what_if] if isinstance(what_if, str) else list(what_if)
    for question in questions:
        if not isinstance(question, str):
            raise TypeError(f"a question is a str, not {type(question).__name__}")
    return questions


def _scale_rule(nodes: str, factor: float) -> str:
    if not isinstance(nodes, str):
        raise TypeError(f"the nodes to scale are a str, not {type(nodes).__name__}")
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        raise TypeError(f"a factor is a number, not {type(factor).__name__}")
    return f"{nodes} {float(factor)!r}"


def _rank_list(ranks: int | Iterable[int] | None) -> list[int] | None:
    if ranks is None:
        return None
    chosen = [ranks] if isinstance(ranks, int) else list(ranks)
    for rank in chosen:
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise TypeError(f"a rank is an int, not {type(rank).__name__}")
        if rank < 0:
            raise Error(f"{rank} is not a rank; ranks are 0 and above")
    if not chosen:
        raise Error("no ranks; give at least one, or None for all")
    return chosen


def _bytes(memory: int | str | None) -> int | None:
    if memory is None:
        return None
    if isinstance(memory, str):
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", memory.strip().lower())
        if match is None:
            raise Error(f"{memory!r} is not a size; give bytes, or a text such as '16G'")
        number, unit, is_binary = match.groups()
        factor = 1024 ** list(UNITS).index(unit) if is_binary else UNITS[unit]
        return int(float(number) * factor)
    if isinstance(memory, bool) or not isinstance(memory, int):
        raise TypeError(f"memory is an int or a str, not {type(memory).__name__}")
    if memory <= 0:
        raise Error(f"{memory} bytes are too little memory; give more, or None for all available memory")
    return memory
