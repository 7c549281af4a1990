// What of a timeline is in sight: times, tracks and where they lie.

import type { Model, Track } from "./model";

export const AXIS = 24;
export const HEAD = 20;
export const LANE = 17;
const GAP = 6;
/** So many ns at least are in sight. */
const CLOSEST = 50;

/** A track's place, px from the top of all tracks. */
export interface Row {
  /** Of the model; -1: the critical path. */
  track: number;
  top: number;
  lanes: number;
}

export class View {
  from = 0;
  to: number;
  width = 600;
  height = 400;
  /** How far it is scrolled down, px. */
  top = 0;
  rows: Row[] = [];
  /** Height of all tracks. */
  total = 0;
  readonly folded = new Set<number>();
  readonly model: Model;
  private readonly length: number;
  /** Threads by when they begin, then streams. */
  private order: number[];
  private readonly usual: number[];
  private byTrack = new Map<number, Row>();

  constructor(model: Model) {
    this.model = model;
    const begins = ({ stream, lanes }: Track) =>
      stream ? Infinity : model.start[lanes[0]?.[0] ?? 0];
    const first = model.tracks.map(begins);
    this.order = model.tracks
      .map((_, track) => track)
      .sort((a, b) => (first[a] === first[b] ? a - b : first[a] - first[b]));
    this.usual = this.order;
    this.length = Math.max(model.packed.window_ns, CLOSEST);
    this.to = this.length;
    this.lay();
  }

  /** Places the tracks. */
  lay() {
    let top = 0;
    const place = (track: number, lanes: number) => {
      const row = { track, top, lanes };
      top += HEAD + lanes * LANE + GAP;
      return row;
    };
    const shown = (track: number) =>
      this.folded.has(track) ? 0 : track < 0 ? 1 : this.model.tracks[track].lanes.length;
    const path = this.model.path.length > 0 ? [place(-1, shown(-1))] : [];
    this.rows = [...path, ...this.order.map((track) => place(track, shown(track)))];
    this.byTrack = new Map(this.rows.map((row) => [row.track, row]));
    this.total = top;
  }

  /** Tracks with the largest key first; without keys as usual. */
  arrange(key?: (track: Track) => number) {
    this.order = key
      ? [...this.usual].sort((a, b) => key(this.model.tracks[b]) - key(this.model.tracks[a]))
      : this.usual;
    this.lay();
  }

  fold(track: number) {
    if (!this.folded.delete(track)) {
      this.folded.add(track);
    }
    this.lay();
  }

  x(time: number): number {
    return ((time - this.from) / (this.to - this.from)) * this.width;
  }

  time(x: number): number {
    return this.from + (x / this.width) * (this.to - this.from);
  }

  /** Px of the canvas: the top of a lane. */
  y(row: Row, lane: number): number {
    return AXIS + row.top + HEAD + lane * LANE - this.top;
  }

  /** The row of a range, and the lane that it is seen on. */
  place(range: number): { row: Row; lane: number } | undefined {
    const row = this.byTrack.get(this.model.track[range]);
    return (
      row && { row, lane: Math.min(this.model.packed.depth[range], Math.max(row.lanes - 1, 0)) }
    );
  }

  /** Zooms by `factor` (< 1: in) around a time. */
  zoom(factor: number, around = (this.from + this.to) / 2) {
    const share = (around - this.from) / (this.to - this.from);
    const span = Math.min(
      Math.max((this.to - this.from) * factor, CLOSEST),
      this.margin() * 2 + this.length,
    );
    this.set(around - share * span, around + (1 - share) * span);
  }

  /** Moves by a part of what is in sight. */
  pan(part: number) {
    const by = (this.to - this.from) * part;
    this.set(this.from + by, this.to + by);
  }

  /** Some time before and after can be seen too. */
  private margin(): number {
    return this.length * 0.02;
  }

  set(from: number, to: number) {
    const [least, most] = [-this.margin(), this.length + this.margin()];
    const span = Math.min(Math.max(to - from, CLOSEST), most - least);
    // The hash has what is in sight: rounded, so that it leads to just the same.
    const rounded = (time: number) => Math.round(time * 100) / 100;
    this.from = rounded(Math.max(Math.min(from, most - span), least));
    this.to = rounded(Math.min(this.from + span, most));
  }

  all() {
    this.set(0, this.length);
  }

  isAll(): boolean {
    return this.from === 0 && this.to === this.length;
  }

  /** Brings a range into sight, and nearer if it is too small to see. */
  show(range: number) {
    const { start, end } = this.model;
    const [from, to] = [start[range], end[range]];
    const least = (to - from) * 1.2;
    const most = Math.max(to - from, 1) * 60;
    const span = Math.min(Math.max(this.to - this.from, least), most);
    if (span !== this.to - this.from || from < this.from || to > this.to) {
      const middle = (from + to) / 2;
      this.set(middle - span / 2, middle + span / 2);
    }
  }

  /** Fills the width with a range. */
  fill(range: number) {
    this.fillSpan([this.model.start[range], this.model.end[range]]);
  }

  /** Fills the width with a time. */
  fillSpan([from, to]: [number, number]) {
    const span = Math.max(to - from, CLOSEST);
    this.set(from - span * 0.1, from + span * 1.1);
  }

  /** What is at a point of the canvas. */
  hit(x: number, y: number): { range: number; step: number } {
    const down = y - AXIS + this.top;
    const row =
      y < AXIS
        ? undefined
        : this.rows.find(
            (row) => down >= row.top + HEAD && down < row.top + HEAD + row.lanes * LANE,
          );
    if (!row) {
      return { range: -1, step: -1 };
    }
    const near = ((this.to - this.from) / this.width) * 3;
    if (row.track < 0) {
      const time = this.time(x);
      const step = this.model.path.findIndex(
        (step) =>
          time >= step.start - Math.max(step.delay, 0) - near &&
          time <= step.start + step.duration + near,
      );
      return { range: this.model.path[step]?.range ?? -1, step };
    }
    const lane = this.model.tracks[row.track].lanes[Math.floor((down - row.top - HEAD) / LANE)];
    return { range: lane ? this.model.at(lane, this.time(x), near) : -1, step: -1 };
  }
}
