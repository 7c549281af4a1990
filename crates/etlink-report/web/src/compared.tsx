// What changed since an earlier run.

import { useState } from "preact/hooks";
import { Note, Say } from "./charts";
import type { ComparedRuns, ComparedTable } from "./data";
import { Name, Table, type Column } from "./table";

const TITLES: { [table: string]: string } = {
  classes: "Device time by class",
  ops: "Device time by op",
  waiting: "Host waits",
  kernels: "Device rows",
  host: "Host self time",
};

const COLUMNS: Column[] = [
  {
    field: "name",
    cell: (value, record) => <Name text={String(record.short_name)} full={String(value)} />,
  },
  { field: "before_ns", head: "before" },
  { field: "after_ns", head: "after" },
  { field: "cost_ns", head: "cost" },
  { field: "change_share", head: "change" },
];

function leftOut(table: ComparedTable): string | undefined {
  const parts = [];
  if (table.within_spread > 0) {
    parts.push(`${table.within_spread} rows changed within the spread of steps.`);
  }
  if (table.cut > 0) {
    parts.push(`${table.cut} more with smaller changes: see etlink diff --json.`);
  }
  return parts.length > 0 ? parts.join(" ") : undefined;
}

export function ComparedSection({ compared }: { compared: ComparedRuns }) {
  const [wanted, choose] = useState(0);
  const table = compared.tables[wanted];
  return (
    <>
      {compared.sentences.map((sentence) => (
        <Say key={sentence}>{sentence}</Say>
      ))}
      <Note text={`Before: ${compared.before}`} />
      {table && (
        <Table
          key={table.title}
          id="compared-table"
          caption={TITLES[table.title] ?? table.title}
          records={table.rows.map((row) => ({ ...row }))}
          columns={COLUMNS}
          rows={10}
          note={leftOut(table)}
          tools={
            <div class="choice" role="group" aria-label="What changed">
              {compared.tables.map(({ title }, at) => (
                <button
                  key={title}
                  type="button"
                  aria-pressed={at === wanted}
                  onClick={() => choose(at)}
                >
                  {TITLES[title] ?? title}
                </button>
              ))}
            </div>
          }
        />
      )}
    </>
  );
}
