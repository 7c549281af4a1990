// Draws what is in sight on a canvas.

import { nice } from "../charts";
import { time as timeText, timeUnit } from "../format";
import { after, type Dep } from "./model";
import { AXIS, HEAD, LANE, type Row, type View } from "./view";

/** Arrows that are drawn at once, when all are asked for. */
const ARROWS = 1500;
const LETTER = 6.3;

/** What to draw besides the ranges. */
export interface Marks {
  selected: number;
  /** What belongs to the selected range. */
  related: Set<number>;
  /** The selected time. */
  area: [number, number] | null;
  /** What was searched for; none: nothing was. */
  found: Set<number> | null;
  arrows: boolean;
  path: boolean;
}

export type Colours = (name: string) => string;

/** Colours of the theme, by the names of the style sheet. */
export function colours(element: Element): Colours {
  const style = getComputedStyle(element);
  const known = new Map<string, string>();
  return (name) => {
    let value = known.get(name);
    if (value === undefined) {
      value = style.getPropertyValue(`--${name}`).trim();
      known.set(name, value);
    }
    return value;
  };
}

export function draw(context: CanvasRenderingContext2D, view: View, marks: Marks, colour: Colours) {
  const scale = window.devicePixelRatio || 1;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = colour("card");
  context.fillRect(0, 0, view.width, view.height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  grid(context, view, colour);
  context.save();
  context.beginPath();
  context.rect(0, AXIS, view.width, view.height - AXIS);
  context.clip();
  for (const row of view.rows) {
    const [top, bottom] = [view.y(row, 0), view.y(row, row.lanes)];
    if (bottom >= AXIS && top - HEAD <= view.height) {
      band(context, view, row, colour);
      if (row.track < 0) {
        path(context, view, row, colour);
      } else {
        view.model.tracks[row.track].lanes
          .slice(0, row.lanes)
          .forEach((lane, depth) => ranges(context, view, row, lane, depth, marks, colour));
      }
    }
  }
  if (marks.path) {
    onTracks(context, view, colour);
  }
  arrows(context, view, marks, colour);
  if (marks.area) {
    selectedTime(context, view, marks.area, colour);
  }
  context.restore();
}

/** The selected time, with what lies outside of it in shade. */
function selectedTime(
  context: CanvasRenderingContext2D,
  view: View,
  [from, to]: [number, number],
  colour: Colours,
) {
  const inside = (x: number) => Math.min(Math.max(x, 0), view.width);
  const [left, right] = [inside(view.x(from)), inside(view.x(to))];
  context.globalAlpha = 0.55;
  context.fillStyle = colour("band");
  context.fillRect(0, AXIS, left, view.height);
  context.fillRect(right, AXIS, view.width - right, view.height);
  context.globalAlpha = 1;
  context.fillStyle = colour("accent");
  context.fillRect(left - 1, AXIS, 2, view.height);
  context.fillRect(right - 1, AXIS, 2, view.height);
}

function grid(context: CanvasRenderingContext2D, view: View, colour: Colours) {
  const span = view.to - view.from;
  const step = nice((span / view.width) * 110);
  const { offset } = view.model;
  const [unit, size] = timeUnit(Math.max(Math.abs(view.to + offset), step));
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  context.textAlign = "left";
  for (let at = Math.ceil((view.from + offset) / step) * step; at <= view.to + offset; at += step) {
    const x = Math.round(view.x(at - offset)) + 0.5;
    context.strokeStyle = colour("line");
    context.beginPath();
    context.moveTo(x, AXIS - 6);
    context.lineTo(x, view.height);
    context.stroke();
    context.fillStyle = colour("quiet");
    context.fillText(`${(at / size).toFixed(digits)} ${unit}`, x + 3, AXIS / 2);
  }
  const end = view.model.packed.step_ns;
  if (end !== null && end < view.to) {
    const x = Math.round(view.x(end)) + 0.5;
    context.setLineDash([4, 3]);
    context.strokeStyle = colour("quiet");
    context.beginPath();
    context.moveTo(x, AXIS);
    context.lineTo(x, view.height);
    context.stroke();
    context.setLineDash([]);
  }
}

function band(context: CanvasRenderingContext2D, view: View, row: Row, colour: Colours) {
  context.fillStyle = colour("band");
  context.fillRect(0, view.y(row, 0) - HEAD, view.width, HEAD);
}

function ranges(
  context: CanvasRenderingContext2D,
  view: View,
  row: Row,
  lane: Int32Array,
  depth: number,
  marks: Marks,
  colour: Colours,
) {
  const { model } = view;
  const y = view.y(row, depth);
  if (y + LANE < AXIS || y > view.height) {
    return;
  }
  let drawn = -1;
  for (let at = Math.max(after(model.start, lane, view.from) - 1, 0); at < lane.length; at++) {
    const range = lane[at];
    if (model.start[range] > view.to) {
      break;
    }
    const [from, to] = [
      Math.max(view.x(model.start[range]), -2),
      Math.min(view.x(model.end[range]), view.width + 2),
    ];
    const picked =
      range === marks.selected || marks.related.has(range) || (marks.found?.has(range) ?? false);
    if (to < 0 || (to < drawn && !picked)) {
      continue;
    }
    const width = Math.max(to - from - (to - from > 4 ? 1 : 0), 1);
    drawn = Math.max(from + 1, to);
    box(context, view, range, { x: from, y, width }, marks, colour);
  }
}

interface Box {
  x: number;
  y: number;
  width: number;
}

function box(
  context: CanvasRenderingContext2D,
  view: View,
  range: number,
  { x, y, width }: Box,
  marks: Marks,
  colour: Colours,
) {
  const { model } = view;
  const kind = model.kind(range);
  const faint = marks.found !== null && !marks.found.has(range);
  const height = LANE - 2;
  context.globalAlpha = faint ? 0.3 : 1;
  context.fillStyle = colour(`box-${kind}`);
  context.fillRect(x, y, width, height);
  const waits = view.x(model.start[range] + model.waits(range)) - view.x(model.start[range]);
  if (waits >= 1) {
    context.fillStyle = colour("box-waiting");
    context.fillRect(x, y, Math.min(waits + view.x(model.start[range]) - x, width), height);
  }
  if (model.packed.count[range] > 1) {
    hatch(context, x, y, width, height, colour("card"));
  }
  const seen = Math.max(x, 0);
  const room = Math.min(x + width, view.width) - seen;
  if (room > 24) {
    context.fillStyle = colour(waits >= 1 ? "on-waiting" : `on-${kind}`);
    context.textAlign = "left";
    const text = fitting(model.shortName(range), room - 6);
    // Wide letters are made narrower rather than cut.
    context.fillText(text, seen + 3, y + height / 2 + 0.5, room - 4);
  }
  context.globalAlpha = 1;
  const isSelected = range === marks.selected;
  if (isSelected || marks.related.has(range)) {
    context.strokeStyle = colour(isSelected ? "text" : "accent");
    context.lineWidth = 2;
    context.strokeRect(x + 1, y + 1, Math.max(width - 2, 1), height - 2);
    context.lineWidth = 1;
  }
}

function hatch(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: string,
) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.globalAlpha *= 0.6;
  context.beginPath();
  for (let at = Math.floor(x / 6) * 6 - height; at < x + width; at += 6) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}

function fitting(text: string, room: number): string {
  const letters = Math.floor(room / LETTER);
  return text.length <= letters ? text : letters > 2 ? `${text.slice(0, letters - 1)}…` : "";
}

function path(context: CanvasRenderingContext2D, view: View, row: Row, colour: Colours) {
  if (row.lanes === 0) {
    return;
  }
  const [y, height] = [view.y(row, 0), LANE - 2];
  let drawn = -1;
  const part = (start: number, end: number, cause: string, name: () => string) => {
    const [from, to] = [Math.max(view.x(start), 0), Math.min(view.x(end), view.width)];
    if (end <= start || to < 0 || from > view.width || to < drawn) {
      return;
    }
    const width = Math.max(to - from - (to - from > 4 ? 1 : 0), 1);
    drawn = Math.max(from + 1, to);
    context.fillStyle = colour(`box-${boxOf(cause)}`);
    context.fillRect(from, y, width, height);
    if (width > 24) {
      context.fillStyle = colour(`on-${boxOf(cause)}`);
      context.textAlign = "left";
      context.fillText(fitting(name(), width - 6), from + 3, y + height / 2 + 0.5, width - 4);
    }
  };
  for (const step of view.model.path) {
    part(
      step.start - step.delay,
      step.start,
      step.delayCause,
      () => `${step.delayCause} ${timeText(step.delay)}`,
    );
    part(step.start, step.start + step.duration, step.cause, () => step.name);
  }
}

/** Where the critical path is on the tracks: under the ranges, as long as it is there. */
function onTracks(context: CanvasRenderingContext2D, view: View, colour: Colours) {
  context.fillStyle = colour("path");
  for (const { range, start, duration } of view.model.path) {
    const place =
      range >= 0 && start <= view.to && start + duration >= view.from
        ? view.place(range)
        : undefined;
    if (place && place.row.lanes > 0) {
      const [from, to] = [
        Math.max(view.x(start), 0),
        Math.min(view.x(start + duration), view.width),
      ];
      context.fillRect(from, view.y(place.row, place.lane) + LANE - 4, Math.max(to - from, 1), 3);
    }
  }
}

/** The colours that a cause of the critical path shares with the ranges. */
export function boxOf(cause: string): string {
  const boxes: { [cause: string]: string } = {
    host: "op",
    launch: "call",
    kernel: "computation",
    memory_copy: "memory",
    communication: "communication",
    gap: "annotation",
    boundary: "other",
    unexplained: "unknown",
  };
  return boxes[cause] ?? "waiting";
}

function arrows(context: CanvasRenderingContext2D, view: View, marks: Marks, colour: Colours) {
  const { model } = view;
  if (marks.arrows) {
    let count = 0;
    context.strokeStyle = colour("quiet");
    context.globalAlpha = 0.45;
    for (const dep of model.deps) {
      if (
        dep.kind !== "stream_order" &&
        dep.from >= 0 &&
        dep.at >= view.from &&
        dep.at - dep.gap <= view.to &&
        count < ARROWS
      ) {
        count += arrow(context, view, dep, 1) ? 1 : 0;
      }
    }
    context.globalAlpha = 1;
  }
  if (marks.selected < 0) {
    return;
  }
  context.strokeStyle = colour("accent");
  model
    .waiters(marks.selected)
    .slice(0, 200)
    .forEach((dep) => arrow(context, view, dep, 1.2));
  model
    .waitedFor(marks.selected)
    .forEach((dep) => arrow(context, view, dep, dep.decided ? 2.5 : 1.2));
}

/** From what was waited for to what waited. Tells whether any of it is in sight. */
function arrow(context: CanvasRenderingContext2D, view: View, dep: Dep, width: number): boolean {
  const [from, to] = [view.place(dep.from), view.place(dep.to)];
  if (dep.from < 0 || !from || !to) {
    return false;
  }
  const [x1, x2] = [view.x(dep.at - dep.gap), view.x(dep.at)];
  const middle = (row: Row, lane: number) =>
    row.lanes === 0 ? view.y(row, 0) - HEAD / 2 : view.y(row, lane) + LANE / 2 - 1;
  const [y1, y2] = [middle(from.row, from.lane), middle(to.row, to.lane)];
  if (
    Math.max(x1, x2) < 0 ||
    Math.min(x1, x2) > view.width ||
    Math.max(y1, y2) < AXIS ||
    Math.min(y1, y2) > view.height
  ) {
    return false;
  }
  const bend = Math.max(Math.abs(x2 - x1) / 2, 12);
  context.lineWidth = width;
  context.setLineDash(dep.inferred ? [5, 3] : []);
  context.beginPath();
  context.moveTo(x1, y1);
  context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
  context.stroke();
  context.setLineDash([]);
  context.beginPath();
  context.moveTo(x2 - 6, y2 - 4);
  context.lineTo(x2, y2);
  context.lineTo(x2 - 6, y2 + 4);
  context.stroke();
  context.lineWidth = 1;
  return true;
}
