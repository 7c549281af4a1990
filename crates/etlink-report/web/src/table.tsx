// A table that sorts and filters. A cell's `data-value` is the value as it came, whatever is shown of it.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Note } from "./charts";
import type { Record_, Value } from "./data";
import { count, SPREAD, spreadUnit, unitOf, words, type Unit } from "./format";

export interface Column {
  field: string;
  head?: string;
  /** Shows a text in place of the usual. */
  cell?: (value: Value, record: Record_) => ComponentChildren;
  /** Goes to what the row is about. */
  follow?: (record: Record_) => void;
}

interface Props {
  id: string;
  caption: string;
  records: Record_[];
  columns: Column[];
  /** Field to sort by at first, falling. */
  sort?: string;
  /** Rows to show at first. */
  rows?: number;
  /** What stands beside the filter. */
  tools?: ComponentChildren;
  filter?: boolean;
  note?: string;
}

interface Order {
  field: string;
  falling: boolean;
}

export function Table({
  id,
  caption,
  records,
  columns,
  sort,
  rows = 12,
  tools,
  filter = true,
  note,
}: Props) {
  const [wanted, setWanted] = useState("");
  const [order, setOrder] = useState<Order | null>(sort ? { field: sort, falling: true } : null);
  const [all, setAll] = useState(false);
  const units = useMemo(() => unitsOf(records, columns), [records, columns]);
  const found = useMemo(
    () => arrange(records, columns, wanted, order),
    [records, columns, wanted, order],
  );
  const shown = all ? found : found.slice(0, rows);
  const turn = (field: string) => {
    const number = units.get(field) !== null;
    setOrder((before) =>
      before?.field === field ? { field, falling: !before.falling } : { field, falling: number },
    );
  };
  return (
    <div class={columns.length < 7 ? "table narrow" : "table"} id={id}>
      {(filter || tools) && (
        <div class="tools">
          {tools}
          {filter && (
            <label class="filter">
              <span class="hidden">Filter {caption}</span>
              <input
                type="search"
                placeholder="Filter"
                value={wanted}
                onInput={(event) => setWanted(event.currentTarget.value)}
              />
            </label>
          )}
          <span class="found" role="status">
            {wanted ? `${count(found.length)} of ${count(records.length)}` : ""}
          </span>
        </div>
      )}
      <div class="scroll" role="region" aria-label={caption} tabIndex={0}>
        <table>
          <caption class="hidden">{caption}</caption>
          <thead>
            <tr>
              {columns.map((column) => (
                <Head
                  key={column.field}
                  column={column}
                  unit={units.get(column.field) ?? null}
                  order={order}
                  turn={turn}
                />
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((record, row) => (
              <tr key={row}>
                {columns.map((column) => (
                  <Cell
                    key={column.field}
                    column={column}
                    record={record}
                    unit={units.get(column.field) ?? null}
                  />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.length > rows && (
        <button type="button" class="more" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? `Show ${rows}` : `Show all ${count(found.length)}`}
        </button>
      )}
      {found.length === 0 && <p class="note">Nothing here matches “{wanted}”.</p>}
      {note && <Note text={note} />}
    </div>
  );
}

function Head({
  column,
  unit,
  order,
  turn,
}: {
  column: Column;
  unit: Unit | null;
  order: Order | null;
  turn: (field: string) => void;
}) {
  const sorted =
    order?.field === column.field ? (order.falling ? "descending" : "ascending") : "none";
  const head = column.head ?? words(column.field);
  return (
    <th
      scope="col"
      aria-sort={sorted}
      class={`${unit ? "number" : ""} ${head.length < 14 ? "short" : ""}`}
    >
      <button type="button" onClick={() => turn(column.field)}>
        {head}
        {unit?.name && <span class="unit"> {unit.name}</span>}
        <span class="mark" aria-hidden="true">
          {sorted === "none" ? "" : sorted === "descending" ? " ▾" : " ▴"}
        </span>
      </button>
    </th>
  );
}

function Cell({ column, record, unit }: { column: Column; record: Record_; unit: Unit | null }) {
  const value = record[column.field] ?? null;
  const { cell, follow } = column;
  const shown = cell ? cell(value, record) : plain(value, unit);
  return (
    <td
      class={unit ? "number" : "text"}
      data-field={column.field}
      data-value={value === null ? "" : String(value)}
    >
      {follow ? (
        <button
          type="button"
          class="link row"
          aria-label={`${String(value)}: show in the timeline`}
          onClick={() => follow(record)}
        >
          {shown}
        </button>
      ) : (
        shown
      )}
    </td>
  );
}

function plain(value: Value, unit: Unit | null): ComponentChildren {
  if (value === null) {
    return "–";
  }
  if (typeof value === "number" && unit) {
    return unit.show(value);
  }
  return typeof value === "string" && value.length > 24 ? <Name text={value} /> : String(value);
}

/** A long name on two lines; all of it as a tooltip. */
export function Name({ text, full = text }: { text: string; full?: string }) {
  return (
    <span class="name" title={full.length > 40 || full !== text ? full : undefined}>
      {text}
    </span>
  );
}

function unitsOf(records: Record_[], columns: Column[]): Map<string, Unit | null> {
  const units = new Map(columns.map(({ field }) => [field, unit(records, field)]));
  const spread = SPREAD.filter((field) => units.get(field));
  const one = spreadUnit(
    records.flatMap((record) =>
      spread.map((field) => record[field]).filter((value) => typeof value === "number"),
    ),
  );
  spread.forEach((field) => units.set(field, one));
  return units;
}

function unit(records: Record_[], field: string): Unit | null {
  const values = records
    .map((record) => record[field])
    .filter((value) => value !== null && value !== undefined);
  const numbers = values.filter((value) => typeof value === "number");
  return numbers.length > 0 && numbers.length === values.length ? unitOf(field, numbers) : null;
}

function arrange(
  records: Record_[],
  columns: Column[],
  wanted: string,
  order: Order | null,
): Record_[] {
  const text = wanted.toLowerCase();
  const has = (record: Record_) =>
    columns.some(
      ({ field }) =>
        typeof record[field] === "string" && record[field].toLowerCase().includes(text),
    );
  const found = text ? records.filter(has) : [...records];
  if (order) {
    found.sort(
      (a, b) => compare(a[order.field] ?? null, b[order.field] ?? null) * (order.falling ? -1 : 1),
    );
  }
  return found;
}

/** What is not said comes first. */
function compare(a: Value, b: Value): number {
  if (a === null || b === null) {
    return a === b ? 0 : a === null ? -1 : 1;
  }
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b));
}

/** Columns for records of which nothing more is known; `first` come first, as a small screen shows no others. */
export function columnsOf(records: Record_[], first: string[] = []): Column[] {
  const simple = (field: string) =>
    records.every((record) => typeof record[field] !== "object" || record[field] === null);
  const fields = Object.keys(records[0] ?? {}).filter(simple);
  const rest = fields.filter((field) => !first.includes(field));
  return [...first.filter((field) => fields.includes(field)), ...rest].map((field) => ({ field }));
}
