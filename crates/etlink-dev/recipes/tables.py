"""Reads what `etlink analyze --parquet` wrote with DuckDB, Polars and pandas, and runs the queries of the README.

Usage: tables.py FOLDER README. Prints JSON: lines of each table by reader, and what each query gives.
"""
import json
import os
import re
import sys

import duckdb
import pandas
import polars

folder, readme = sys.argv[1:]
text = open(readme, encoding="utf-8").read()
os.chdir(folder)
lines = {
    table: [
        duckdb.sql(f"SELECT count(*) FROM 'tables/{table}/*.parquet'").fetchall()[0][0],
        polars.scan_parquet(f"tables/{table}/*.parquet").select(polars.len()).collect().item(),
        len(pandas.read_parquet(f"tables/{table}")),
    ]
    for table in sorted(os.listdir("tables"))
}
queries = [duckdb.sql(query).fetchall() for query in re.findall(r"```sql\n(.*?)```", text, re.DOTALL)]
json.dump({"lines": lines, "queries": queries}, sys.stdout, default=float)
