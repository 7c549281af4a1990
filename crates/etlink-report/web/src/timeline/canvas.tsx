// The timeline's canvas: keys, wheel and pointer.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { Span } from "../navigation";
import { colours, draw, type Marks } from "./draw";
import { HoverCard, type Hover } from "./hover";
import { after, type Model } from "./model";
import { AXIS, HEAD, type View } from "./view";

/** What the canvas asks for. */
export interface Acts {
  /** Selects and brings into sight. */
  select: (range: number) => void;
  /** Selects where it is. */
  pick: (range: number) => void;
  /** Selects time; `isDone`: the pointer has let go. */
  mark: (area: Span | null, isDone: boolean) => void;
  /** To the next range of the selected one's name, or back. */
  again: (by: number) => void;
  refresh: () => void;
}

interface Props {
  view: View;
  marks: Marks;
  theme: string;
  scroller: { current: HTMLDivElement | null };
  /** A drag selects time, with Shift or without. */
  isMarking: boolean;
  acts: Acts;
}

interface Latest {
  marks: Marks;
  isMarking: boolean;
  acts: Acts;
}

const LABEL =
  "Timeline: w and s zoom, a and d move, brackets go from range to range, n and p to the next and previous of the same name, m selects the time of a range, Enter fills the width, question mark lists all keys";

export function Canvas({ view, marks, theme, scroller, isMarking, acts }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const hover = useRef<(hover: Hover | null) => void>(() => undefined);
  const latest = useRef<Latest>({ marks, isMarking, acts });
  Object.assign(latest.current, { marks, isMarking, acts });
  const paint = () => {
    const context = canvas.current?.getContext("2d");
    if (canvas.current && context) {
      draw(context, view, latest.current.marks, colours(canvas.current));
    }
  };
  useLayoutEffect(paint);
  useEffect(
    () =>
      scroller.current && canvas.current
        ? watch(scroller.current, canvas.current, view, latest.current, hover)
        : undefined,
    [view],
  );
  useEffect(paint, [theme]);
  return (
    <div class="tracks" style={{ height: `min(72vh, ${Math.max(view.total, 120) + AXIS + 2}px)` }}>
      <canvas ref={canvas} aria-hidden="true" />
      <div
        class="over"
        ref={scroller}
        tabIndex={0}
        role="application"
        aria-label={LABEL}
        onScroll={(event) => ((view.top = event.currentTarget.scrollTop), paint())}
        onKeyDown={(event) =>
          event.target === event.currentTarget &&
          key(event, view, latest.current.marks.selected, latest.current.acts)
        }
      >
        <div class="heads" style={{ height: `${view.total}px` }}>
          {view.rows.map((row) => (
            <button
              key={row.track}
              type="button"
              class="head"
              style={{ top: `${row.top}px` }}
              aria-expanded={!view.folded.has(row.track)}
              onClick={() => (view.fold(row.track), acts.refresh())}
            >
              <span aria-hidden="true">{view.folded.has(row.track) ? "▸" : "▾"}</span>{" "}
              {trackHead(view.model, row.track)}
            </button>
          ))}
        </div>
      </div>
      <HoverCard model={view.model} show={hover} />
    </div>
  );
}

function trackHead(model: Model, track: number) {
  const of = model.tracks[track];
  return of ? (
    <>
      {of.name} <small>{of.group}</small>
    </>
  ) : (
    "critical path"
  );
}

/** A wheel that scrolls the page does not start to zoom when the timeline comes under it, ms. */
const PAGE_SCROLLS = 250;

/** Keeps the canvas as large as its place, and takes the pointer. */
function watch(
  scroller: HTMLDivElement,
  canvas: HTMLCanvasElement,
  view: View,
  latest: Latest,
  hover: { current: (hover: Hover | null) => void },
) {
  const fit = () => {
    const scale = window.devicePixelRatio || 1;
    [view.width, view.height] = [scroller.clientWidth, scroller.clientHeight + AXIS];
    [canvas.width, canvas.height] = [
      Math.round(view.width * scale),
      Math.round(view.height * scale),
    ];
    canvas.style.width = `${view.width}px`;
    canvas.style.height = `${view.height}px`;
    latest.acts.refresh();
  };
  const size = new ResizeObserver(fit);
  size.observe(scroller);
  fit();
  const where = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let pageScrolled = -Infinity;
  const scrolled = () => (pageScrolled = performance.now());
  const wheel = (event: WheelEvent) => {
    const isAsked = event.ctrlKey || event.metaKey;
    if (!isAsked && performance.now() - pageScrolled < PAGE_SCROLLS) {
      return;
    }
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.pan((event.deltaX || event.deltaY) / view.width);
    } else if (event.altKey) {
      scroller.scrollTop += event.deltaY;
    } else {
      view.zoom(Math.exp(Math.sign(event.deltaY) * 0.25), view.time(where(event)[0]));
    }
    event.preventDefault();
    hover.current(null);
    latest.acts.refresh();
  };
  const pointers = new Map<number, [number, number]>();
  let moved = 0;
  /** Where the selected time begins; null: the pointer moves what is in sight. */
  let markedFrom: number | null = null;
  const down = (event: PointerEvent) => {
    const onBar = where(event)[0] >= view.width;
    if (
      event.button === 0 &&
      event.target instanceof HTMLElement &&
      !event.target.closest("button") &&
      !onBar
    ) {
      pointers.set(event.pointerId, where(event));
      scroller.setPointerCapture(event.pointerId);
      moved = 0;
      const isMarking = pointers.size === 1 && (event.shiftKey || latest.isMarking);
      markedFrom = isMarking ? view.time(where(event)[0]) : null;
      hover.current(null);
    }
  };
  const marked = (event: PointerEvent, from: number): Span => {
    const to = view.time(where(event)[0]);
    return [Math.round(Math.min(from, to)), Math.round(Math.max(from, to))];
  };
  const move = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    const now = where(event);
    if (!before) {
      const { range, step } = view.hit(...now);
      const isPath = range < 0 && step >= 0;
      scroller.style.cursor = latest.isMarking ? "crosshair" : range >= 0 ? "pointer" : "grab";
      const isOn = event.pointerType === "mouse" && (range >= 0 || isPath);
      hover.current(isOn ? { range, step, x: now[0], y: now[1] } : null);
      return;
    }
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    if (others.length > 0) {
      const apart = (at: [number, number]) => Math.max(Math.abs(at[0] - others[0][0]), 10);
      view.zoom(apart(before) / apart(now), view.time((now[0] + others[0][0]) / 2));
    } else if (markedFrom !== null) {
      latest.acts.mark(marked(event, markedFrom), false);
    } else {
      view.pan((before[0] - now[0]) / view.width);
      if (event.pointerType === "mouse") {
        scroller.scrollTop += before[1] - now[1];
      }
    }
    pointers.set(event.pointerId, now);
    latest.acts.refresh();
  };
  const up = (event: PointerEvent) => {
    if (!pointers.delete(event.pointerId) || event.type !== "pointerup") {
      return;
    }
    if (moved < 4) {
      latest.acts.pick(view.hit(...where(event)).range);
    } else if (markedFrom !== null) {
      latest.acts.mark(marked(event, markedFrom), true);
    }
  };
  scroller.addEventListener("wheel", wheel, { passive: false });
  scroller.addEventListener("pointerdown", down);
  scroller.addEventListener("pointermove", move);
  scroller.addEventListener("pointerup", up);
  scroller.addEventListener("pointercancel", up);
  scroller.addEventListener("pointerleave", () => hover.current(null));
  window.addEventListener("scroll", scrolled, { passive: true });
  return () => {
    size.disconnect();
    window.removeEventListener("scroll", scrolled);
  };
}

/** Keys of the timeline, when it has the focus. */
function key(event: KeyboardEvent, view: View, selected: number, acts: Acts) {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const { start, end } = view.model;
  const keys: { [key: string]: () => void } = {
    w: () => view.zoom(0.6),
    "+": () => view.zoom(0.6),
    "=": () => view.zoom(0.6),
    s: () => view.zoom(1.6),
    "-": () => view.zoom(1.6),
    a: () => view.pan(-0.2),
    ArrowLeft: () => view.pan(-0.2),
    d: () => view.pan(0.2),
    ArrowRight: () => view.pan(0.2),
    "0": () => view.all(),
    Escape: () => acts.select(-1),
    "]": () => acts.select(beside(view, selected, 1)),
    "[": () => acts.select(beside(view, selected, -1)),
    n: () => acts.again(1),
    p: () => acts.again(-1),
    m: () => selected >= 0 && acts.mark([start[selected], end[selected]], true),
    Enter: () => selected >= 0 && view.fill(selected),
  };
  const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (act) {
    act();
    event.preventDefault();
    acts.refresh();
  }
}

/** The range before or after on the same lane; without one the first in sight. */
function beside(view: View, selected: number, by: number): number {
  const { model } = view;
  if (selected < 0) {
    const row = view.rows.find((row) => row.track >= 0 && row.lanes > 0);
    const lane = row ? model.tracks[row.track].lanes[0] : undefined;
    return lane ? (lane[Math.min(after(model.start, lane, view.from), lane.length - 1)] ?? -1) : -1;
  }
  const lane = model.tracks[model.track[selected]].lanes[model.packed.depth[selected]];
  return lane[lane.indexOf(selected) + by] ?? selected;
}

/** Scrolls a range's track into sight. */
export function reveal(view: View, range: number, scroller: HTMLDivElement | null) {
  const place = view.place(range);
  if (scroller && place) {
    const y = view.y(place.row, place.lane) + view.top - AXIS;
    if (y < view.top + HEAD || y > view.top + view.height - AXIS - 40) {
      scroller.scrollTop = Math.max(0, y - (view.height - AXIS) / 2);
      view.top = scroller.scrollTop;
    }
  }
}
