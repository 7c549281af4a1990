"""Reads what `etlink analyze --parquet` wrote with DuckDB, Polars and pandas, and runs the queries of the README.

Usage: tables.py DRAWN. DRAWN is a folder with the traces of two ranks: three steps each, with `aten::mm` whose kernels take
100 us, and an all-reduce; rank 1 comes 40 us late in step 1.
"""
import json
import re
import sys
from pathlib import Path

import duckdb
import pandas
import polars

from command import ROOT, etlink, etlink_json

README = (ROOT / "crates/etlink-tables/README.md").read_text()


def read_tables(traces, folder):
    """Returns the number of rows of each table, equal for all readers, and the answers of the README's queries."""
    etlink("analyze", "--overwrite", traces, "--parquet", folder / "tables")
    rows = {}
    for table in sorted(path.name for path in (folder / "tables").iterdir()):
        files = f"{folder}/tables/{table}/*.parquet"
        read = {
            duckdb.sql(f"SELECT count(*) FROM '{files}'").fetchall()[0][0],
            polars.scan_parquet(files).select(polars.len()).collect().item(),
            len(pandas.read_parquet(folder / "tables" / table)),
        }
        assert len(read) == 1, f"{table}: readers find {read} rows"
        rows[table] = read.pop()
    queries = re.findall(r"```sql\n(.*?)```", README, re.DOTALL)
    return rows, [duckdb.sql(query.replace("'tables/", f"'{folder}/tables/")).fetchall() for query in queries]


def check(traces, folder, ranks):
    """Compares the tables with the counts of `link`."""
    rows, (ops, edges, skew) = read_tables(traces, folder)
    reports = [
        etlink_json("link", "--overwrite", "-o", folder / "x.et", "--device", device)["report"]
        for device in ranks
    ]
    for table in ("nodes", "edges"):
        linked = sum(sum(report[table].values()) for report in reports)
        assert rows[table] == linked, f"{table}: {rows[table]} rows, {linked} linked"
    # three steps per rank, with kernels of 100 us
    steps = 3 * len(ranks)
    assert any(row[:2] == ("aten::mm", steps) and float(row[2]) == steps / 10 for row in ops), ops
    assert sum(row[1] for row in edges) == rows["edges"], edges
    print(f"{traces.name}: {len(rows)} tables, 3 readers, 3 queries: as linked")
    return skew


drawn, target = Path(sys.argv[1]), ROOT / "target/tables"
devices = [drawn / f"kineto_trace_{rank}.json" for rank in range(2)]
skew = check(drawn, target / "ranks", devices)
assert tuple(map(float, skew[0][2:5])) == (1, 1, 40), skew
# without a rank: in SQL null equals nothing, not even null, which the README's joins must handle
text = json.loads(devices[0].read_text())
text.pop("distributedInfo")
alone = target / "trace.json"
alone.write_text(json.dumps(text))
check(alone, target / "alone", [alone])
