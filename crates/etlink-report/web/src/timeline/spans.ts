// Sums over a selected time: how busy the devices are, with what, and what the host does.

import type { Span } from "../navigation";
import type { Model } from "./model";

export interface NameSum {
  name: string;
  short: string;
  /** How long it runs within the time, ns. */
  ns: number;
  count: number;
  /** The one that runs longest. */
  longest: number;
}

export interface SpanSums {
  /** Time in which at least one row of a device runs, by device. */
  busy: [string, number][];
  /** The same by class, on any device. */
  classes: [string, number][];
  rows: NameSum[];
  /** Of host ops, with what they call. */
  ops: NameSum[];
  /** Boxes that stand for several ranges. */
  joined: number;
}

/** How long at least one of the spans lasts. Sorts them. */
export function unionLength(spans: Span[]): number {
  spans.sort((a, b) => a[0] - b[0]);
  let [sum, end] = [0, -Infinity];
  for (const [from, to] of spans) {
    sum += Math.max(to - Math.max(from, end), 0);
    end = Math.max(end, to);
  }
  return sum;
}

export function sumsOf(model: Model, [from, to]: Span): SpanSums {
  const [busy, classes] = [new Map<string, Span[]>(), new Map<string, Span[]>()];
  const [rows, ops] = [new Map<string, NameSum>(), new Map<string, NameSum>()];
  const ofAll = model.packed.joints !== null;
  // A device that does nothing in this time is named all the same.
  for (const track of model.tracks.filter((track) => track.stream)) {
    busy.set(ofAll ? track.name : track.group, []);
  }
  let joined = 0;
  for (let range = 0; range < model.size; range++) {
    const clipped: Span = [Math.max(model.start[range], from), Math.min(model.end[range], to)];
    if (clipped[1] <= clipped[0]) {
      continue;
    }
    const [track, kind] = [model.tracks[model.track[range]], model.kind(range)];
    const isOne = model.packed.count[range] === 1;
    joined += isOne ? 0 : 1;
    if (track.stream && kind !== "annotation") {
      put(busy, ofAll ? track.name : track.group, clipped);
      put(classes, kind, clipped);
    }
    if (isOne && (track.stream ? kind !== "annotation" : kind === "op")) {
      add(track.stream ? rows : ops, model, range, clipped[1] - clipped[0]);
    }
  }
  const lengths = (spans: Map<string, Span[]>) =>
    [...spans].map(([name, all]): [string, number] => [name, unionLength(all)]);
  const sorted = (sums: Map<string, NameSum>) => [...sums.values()].sort((a, b) => b.ns - a.ns);
  return {
    busy: lengths(busy),
    classes: lengths(classes).sort((a, b) => b[1] - a[1]),
    rows: sorted(rows),
    ops: sorted(ops),
    joined,
  };
}

function put(spans: Map<string, Span[]>, key: string, span: Span) {
  const all = spans.get(key);
  if (all) {
    all.push(span);
  } else {
    spans.set(key, [span]);
  }
}

function add(sums: Map<string, NameSum>, model: Model, range: number, ns: number) {
  const name = model.name(range);
  const sum = sums.get(name);
  if (!sum) {
    sums.set(name, { name, short: model.shortName(range), ns, count: 1, longest: range });
    return;
  }
  const length = (of: number) => model.end[of] - model.start[of];
  sum.longest = length(range) > length(sum.longest) ? range : sum.longest;
  sum.ns += ns;
  sum.count += 1;
}
