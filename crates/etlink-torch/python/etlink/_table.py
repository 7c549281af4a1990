"""A table of a run."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _etlink
from ._error import Error

if TYPE_CHECKING:
    # type checkers accept this file without the packages or their stubs
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import polars  # type: ignore[import-not-found, unused-ignore]
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]

SHOWN_LINES = 10


class Table:
    """A table. Times are integers in ns, sizes are in bytes. Unknown values are null.

    It has Arrow's PyCapsule interface (`__arrow_c_stream__`): `polars.DataFrame(table)`,
    `pyarrow.table(table)` and, for a variable `kernels`, `duckdb.sql("FROM kernels")` read it
    without a copy. `pandas.DataFrame(table)` works, too; `to_pandas` is faster and keeps types.
    """

    def __init__(self, handle: _etlink.Table) -> None:
        if not isinstance(handle, _etlink.Table):
            raise TypeError("create a Table with Run.table()")
        self._handle = handle

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._handle.name

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._handle.columns

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self._handle.shape

    def __len__(self) -> int:
        return len(self._handle)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterates over the rows, as dictionaries; `pandas.DataFrame(table)` reads them."""
        return iter(self._handle)

    def __getitem__(self, column: str) -> list[Any]:
        """Returns the values of a column."""
        if not isinstance(column, str):
            raise TypeError(
                f"a table is indexed by the name of a column, not by {type(column).__name__}; "
                "iterate over it or use head() for rows"
            )
        return self._handle[column]

    def head(self, rows: int = 5) -> Table:
        """Returns the first rows as a table of their own."""
        return Table(self._handle.head(rows))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Arrow's PyCapsule interface."""
        return self._handle.__arrow_c_stream__(requested_schema)

    def to_pylist(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Returns the rows as dictionaries, at most `limit`. Needs no other package."""
        return self._handle.to_pylist(limit)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a pandas DataFrame; needs pyarrow too."""
        try:
            import pandas
        except ImportError as error:
            raise missing("to_pandas", "pandas", error) from None
        try:
            import pyarrow
        except ImportError as error:
            # pandas itself reads streams through it
            raise missing("to_pandas", "pyarrow", error) from None
        frame: pandas.DataFrame = pyarrow.table(self).to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Returns a polars DataFrame."""
        try:
            import polars
        except ImportError as error:
            raise missing("to_polars", "polars", error) from None
        return polars.DataFrame(self)

    def to_pyarrow(self) -> pyarrow.Table:
        """Returns a pyarrow Table."""
        try:
            import pyarrow
        except ImportError as error:
            raise missing("to_pyarrow", "pyarrow", error) from None
        return pyarrow.table(self)

    def __repr__(self) -> str:
        return f"<etlink.Table {self.name}: {len(self)} rows, {len(self.columns)} columns>"

    def _repr_html_(self) -> str:
        left = len(self) - SHOWN_LINES
        more = f"<p>… {left} more rows</p>" if left > 0 else ""
        return html_table(self.to_pylist(SHOWN_LINES), self.columns) + more


def missing(method: str, package: str, error: ImportError) -> Error:
    """Returns the error for a missing package."""
    remedy = f"pip install {package}"
    return Error(f"{method} needs {package}: {error}; {remedy}", remedy=remedy)


def html_table(lines: list[dict[str, Any]], columns: list[str]) -> str:
    """Returns rows as an HTML table."""
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = ""
    for line in lines:
        values = ["" if line[column] is None else str(line[column]) for column in columns]
        # names of kernels contain <, and a trace can contain anything
        body += "<tr>" + "".join(f"<td>{html.escape(value)}</td>" for value in values) + "</tr>"
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
