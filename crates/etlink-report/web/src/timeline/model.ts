// A timeline unpacked: ranges by number, their place on tracks, what they waited for and what waited for them.

import type { Data, DrawnCollective, Timeline } from "../data";

export interface Track {
  name: string;
  group: string;
  stream: boolean;
  /** Ranges by depth, by start. */
  lanes: Int32Array[];
}

/** A reason to wait. */
export interface Dep {
  /** The range that waited. */
  to: number;
  /** What it waited for; -1: it is not drawn. */
  from: number;
  /** Name of one that is not drawn. */
  outside: string;
  kind: string;
  /** When the wait was over, ns. */
  at: number;
  /** From the end of what it waited for to there; of a launch from the call's begin. */
  gap: number;
  decided: boolean;
  inferred: boolean;
}

export interface PathStep {
  range: number;
  name: string;
  start: number;
  duration: number;
  delay: number;
  cause: string;
  delayCause: string;
  via: string;
  /** Steps that are drawn as one. */
  count: number;
}

export class Model {
  readonly packed: Timeline;
  readonly size: number;
  readonly start: Float64Array;
  readonly end: Float64Array;
  readonly track: Int32Array;
  readonly tracks: Track[];
  readonly path: PathStep[];
  /** Per range, its step of the critical path; -1: it is not on it. */
  readonly onPath: Int32Array;
  readonly deps: Dep[];
  /** What to add to have a time by the common clock. */
  readonly offset: number;
  /** Per range, the collective or message that it is a side of; -1: none. */
  readonly joint: Int32Array;
  /** Per call or row, the op that it belongs to; -1: none that is drawn. */
  readonly op: Int32Array;
  private readonly joints: DrawnCollective[];
  private readonly kinds: string[];
  private readonly shortNames: Map<string, string>;
  private readonly causes: Map<number, number[]> = new Map();
  private readonly effects: Map<number, number[]> = new Map();

  constructor(
    packed: Timeline,
    { kinds, edges }: Pick<Data, "kinds" | "edges">,
    joints: DrawnCollective[],
    shortNames: Map<string, string>,
  ) {
    this.packed = packed;
    this.shortNames = shortNames;
    let op = 0;
    this.op = Int32Array.from(packed.op, (more) => (op += more) - 1);
    this.joints = joints;
    this.offset = packed.common_ns ?? 0;
    this.joint = new Int32Array(packed.start.length).fill(-1);
    packed.met.range.forEach(
      (range, at) =>
        packed.met.joint[at] < joints.length && (this.joint[range] = packed.met.joint[at]),
    );
    this.kinds = kinds;
    this.size = packed.start.length;
    this.start = new Float64Array(this.size);
    this.end = new Float64Array(this.size);
    this.track = new Int32Array(this.size);
    let first = 0;
    this.tracks = packed.tracks.map((track, at) => {
      const lanes = this.place(at, first, first + track.ranges);
      first += track.ranges;
      return { name: track.name, group: track.group, stream: track.stream, lanes };
    });
    this.path = packed.path.range.map((range, at) => this.step(range, at));
    this.onPath = new Int32Array(this.size).fill(-1);
    this.path.forEach((step, at) => step.range >= 0 && (this.onPath[step.range] = at));
    this.deps = packed.deps.to.map((_, at) => this.dep(at, edges));
    this.deps.forEach((dep, at) => {
      add(this.causes, dep.to, at);
      add(this.effects, dep.from, at);
    });
  }

  private place(track: number, first: number, end: number): Int32Array[] {
    const lanes: number[][] = [];
    let at = 0;
    for (let range = first; range < end; range++) {
      at += this.packed.start[range];
      this.start[range] = at;
      this.end[range] = at + this.packed.duration[range];
      this.track[range] = track;
      (lanes[this.packed.depth[range]] ??= []).push(range);
    }
    return Array.from(lanes, (lane) => Int32Array.from(lane ?? []));
  }

  private step(range: number, at: number): PathStep {
    const { strings, path } = this.packed;
    return {
      range,
      name: path.count[at] > 1 ? `${path.count[at]} short steps` : strings[path.name[at]],
      start: path.start[at],
      duration: path.duration[at],
      delay: path.delay[at],
      cause: strings[path.cause[at]],
      delayCause: strings[path.delay_cause[at]],
      via: strings[path.via[at]],
      count: path.count[at],
    };
  }

  private dep(at: number, edges: string[]): Dep {
    const { strings, deps } = this.packed;
    const from = deps.from[at];
    return {
      to: deps.to[at],
      from: from < 0 ? -1 : from,
      outside: from < 0 ? strings[-1 - from] : "",
      kind: edges[deps.kind[at]],
      at: deps.at[at],
      gap: deps.gap[at],
      decided: (deps.flags[at] & 1) > 0,
      inferred: (deps.flags[at] & 2) > 0,
    };
  }

  name(range: number): string {
    const { count, strings, name } = this.packed;
    return count[range] > 1 ? `${count[range]} short ranges` : strings[name[range]];
  }

  /** A name without what all kernels have in theirs, as tables show it. */
  shortName(range: number): string {
    const name = this.name(range);
    return this.shortNames.get(name) ?? name;
  }

  /** The ranges of a name that are drawn by themselves, in order of number. */
  named(name: string): number[] {
    const number = this.packed.strings.indexOf(name);
    const found: number[] = [];
    for (let range = 0; range < this.size && number > 0; range++) {
      if (this.packed.name[range] === number && this.packed.count[range] === 1) {
        found.push(range);
      }
    }
    return found;
  }

  /** Whether it is a kernel, a copy or a memset. */
  isRow(range: number): boolean {
    return this.packed.joints === null && this.tracks[this.track[range]].stream;
  }

  /** Whether one range of a thread lies within another, or is it. */
  isWithin(inner: number, outer: number): boolean {
    return (
      this.track[inner] === this.track[outer] &&
      this.start[inner] >= this.start[outer] &&
      this.end[inner] <= this.end[outer] &&
      this.packed.depth[inner] >= this.packed.depth[outer]
    );
  }

  /** The device rows of an op and of those that it calls, of an annotation, or of a call, by time. */
  rowsOf(range: number): number[] {
    if (this.packed.joints !== null || this.tracks[this.track[range]].stream) {
      return [];
    }
    if (this.kind(range) === "call") {
      return this.waiters(range)
        .filter((dep) => dep.kind === "launch")
        .map((dep) => dep.to);
    }
    const rows: number[] = [];
    for (let row = 0; row < this.size; row++) {
      const op = this.op[row];
      if (op >= 0 && this.isRow(row) && this.isWithin(op, range)) {
        rows.push(row);
      }
    }
    return rows.sort((a, b) => this.start[a] - this.start[b]);
  }

  /** The call that launched a row; -1: none that is drawn. */
  launchOf(row: number): number {
    return this.waitedFor(row).find((dep) => dep.kind === "launch")?.from ?? -1;
  }

  /** The rank that did it; of a timeline of one trace its number, or -1. */
  rankOf(range: number): number {
    const { rank, joints } = this.packed;
    return rank ?? (joints ? Number(this.tracks[this.track[range]].name.replace("rank ", "")) : -1);
  }

  kind(range: number): string {
    return this.kinds[this.packed.kind[range]];
  }

  /** What it waited for, what ended last first. */
  waitedFor(range: number): Dep[] {
    return (this.causes.get(range) ?? []).map((at) => this.deps[at]);
  }

  /** What waited for it. */
  waiters(range: number): Dep[] {
    return (this.effects.get(range) ?? []).map((at) => this.deps[at]);
  }

  /** The collective or message that a range is a side of. */
  met(range: number): DrawnCollective | undefined {
    return this.joints[this.joint[range]];
  }

  /** How long a range of several ranks stood still for the last of them, ns. */
  waits(range: number): number {
    const met = this.met(range);
    const last = met ? met.start_ns + met.skew_ns - this.offset : -Infinity;
    return Math.max(Math.min(last, this.end[range]) - this.start[range], 0);
  }

  /** The range that is a side of a collective or message, of several that on the track of this name. */
  sideOf(joint: number, track: string): number {
    const sides = this.packed.met.range.filter((_, at) => this.packed.met.joint[at] === joint);
    return sides.find((range) => this.tracks[this.track[range]].name === track) ?? sides[0] ?? -1;
  }

  /** Numbers of the ranges whose name has `text` in it. */
  search(text: string): number[] {
    const wanted = text.trim().toLowerCase();
    if (!wanted) {
      return [];
    }
    const has = this.packed.strings.map((name) => name.toLowerCase().includes(wanted));
    const found: number[] = [];
    for (let range = 0; range < this.size; range++) {
      if (this.packed.count[range] === 1 && has[this.packed.name[range]]) {
        found.push(range);
      }
    }
    return found.sort((a, b) => this.start[a] - this.start[b]);
  }

  /** The range of a lane at `time`, or one that is closer than `near`. */
  at(lane: Int32Array, time: number, near: number): number {
    const next = after(this.start, lane, time);
    const around = [lane[next - 1], lane[next]].filter((range) => range !== undefined);
    const inside = around.find((range) => this.start[range] <= time && time < this.end[range]);
    if (inside !== undefined) {
      return inside;
    }
    const away = (range: number) => Math.max(this.start[range] - time, time - this.end[range]);
    const [best] = around.filter((range) => away(range) <= near).sort((a, b) => away(a) - away(b));
    return best ?? -1;
  }
}

/** Place of the first range of a lane that starts after `time`. */
export function after(start: Float64Array, lane: Int32Array, time: number): number {
  let [low, high] = [0, lane.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (start[lane[middle]] <= time) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

function add(lists: Map<number, number[]>, key: number, value: number) {
  const list = lists.get(key);
  if (list) {
    list.push(value);
  } else {
    lists.set(key, [value]);
  }
}
