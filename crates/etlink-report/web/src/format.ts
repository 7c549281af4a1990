// Numbers as people read them. A column has one unit, so that its figures compare at a glance.

import type { Diagnostic } from "./data";

const TIMES: [string, number][] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];

/** Formats are costly to make: one per number of decimals. */
const FORMATS = new Map<number, Intl.NumberFormat>();

function grouped(value: number, digits: number): string {
  let format = FORMATS.get(digits);
  if (!format) {
    format = new Intl.NumberFormat("en-US", {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
    FORMATS.set(digits, format);
  }
  return format.format(value);
}

/** The same, but never a zero for what is none. */
function seen(value: number, digits: number): string {
  const least = 10 ** -digits;
  return value !== 0 && Math.abs(value) < least ? value.toPrecision(1) : grouped(value, digits);
}

/** One time by itself, in the unit that fits. */
export function time(ns: number): string {
  const [unit, size] = timeUnit(Math.abs(ns));
  return `${decimals(ns / size, unit === "ns" ? 0 : undefined)} ${unit}`;
}

/** The unit for times up to `most` ns. */
export function timeUnit(most: number): [string, number] {
  return TIMES.find(([, size]) => most >= size) ?? ["ns", 1];
}

/** Four digits or so, and no more than three after the point. */
function decimals(value: number, digits?: number): string {
  const size = Math.abs(value);
  const after = digits ?? (size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
  return grouped(value, after);
}

export function percent(share: number, digits = 1): string {
  return `${(share * 100).toFixed(digits)} %`;
}

export function count(value: number): string {
  return grouped(value, 0);
}

export function bytes(value: number): string {
  const units: [string, number][] = [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ];
  const unit = units.find(([, size]) => Math.abs(value) >= size);
  return unit ? `${decimals(value / unit[1])} ${unit[0]}` : `${count(value)} B`;
}

/** A field's name in words: `sum_ns` is `sum`, its unit is the column's. */
export function words(field: string): string {
  return field.replace(/_(ns|gb_per_s)$/, "").replaceAll("_", " ");
}

export interface Unit {
  /** What stands in the column's head. */
  name: string;
  show(value: number): string;
}

/** Times that are compared with each other: they have one unit in a table. */
export const SPREAD = ["mean_ns", "min_ns", "max_ns", "stddev_ns"];

/** One unit for times of all sizes: the least keeps its digits. */
export function spreadUnit(values: number[]): Unit {
  const sizes = values.map(Math.abs).filter((ns) => ns > 0);
  const [least, most] = sizes.reduce(
    ([least, most], ns) => [Math.min(least, ns), Math.max(most, ns)],
    [Infinity, 0],
  );
  // in µs, three digits after the point are ns
  return timesIn(most < 1e3 ? 0 : Math.max(least, 1e3));
}

function timesIn(most: number): Unit {
  const [unit, size] = timeUnit(most);
  const digits = size === 1 ? 0 : 3;
  return { name: unit, show: (ns) => seen(ns / size, digits) };
}

/** The unit for a field's values. A field’s name says what its numbers mean. */
export function unitOf(field: string, values: number[]): Unit {
  const most = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  if (field.endsWith("_ns")) {
    return timesIn(most);
  }
  if (
    field === "share" ||
    field.endsWith("_share") ||
    field.startsWith("share_") ||
    field.endsWith("_error") ||
    field.startsWith("by_")
  ) {
    return { name: "%", show: (share) => (share * 100).toFixed(2) };
  }
  if (field === "bytes" || field.endsWith("_bytes")) {
    const [unit, size] =
      most >= 1e9 ? ["GB", 1e9] : most >= 1e6 ? ["MB", 1e6] : most >= 1e4 ? ["kB", 1e3] : ["B", 1];
    return {
      name: unit,
      show: (bytes) => seen(bytes / size, size === 1 ? 0 : 3),
    };
  }
  if (field.endsWith("_bandwidth")) {
    return { name: "GB/s", show: (rate) => seen(rate / 1e9, 2) };
  }
  if (field.endsWith("_gb_per_s")) {
    return { name: "GB/s", show: (rate) => seen(rate, 2) };
  }
  const whole = values.every(Number.isInteger);
  return { name: "", show: (value) => seen(value, whole ? 0 : 2) };
}

/** A diagnostic in words, after the runs, ranks and files that it is about. */
export function diagnosticText(told: Diagnostic): string {
  const { code, severity, message, remedy } = told;
  const [ranks, files] = [told.ranks ?? [], told.files ?? []];
  const traces = [...ranks.map((rank) => `rank ${rank}`), ...files];
  const follow = files.length === 0 && ranks.every((rank, at) => rank === ranks[0] + at);
  const subject = subjectText("runs", told.runs ?? []) + subjectText("traces", traces, follow);
  const damage = severity === "damage" && code !== "two_runs" ? "damage: " : "";
  return `${subject}${damage}${message}${remedy ? `; ${remedy}` : ""}`;
}

/** The first few names, or the first and the last if they follow each other. */
function subjectText(kind: string, names: string[], follow = false): string {
  const few = names.slice(0, 3).join(", ") + (names.length > 3 ? ", …" : "");
  const first = follow && names.length > 2 ? `${names[0]} … ${names.at(-1)}` : few;
  if (names.length > 1) {
    return `${names.length} ${kind} (${first}): `;
  }
  return names.length > 0 ? `${first}: ` : "";
}
