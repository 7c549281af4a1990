// The timeline: canvas, keys, pointer, search, and what is selected.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Data, Timeline as TimelineData } from "../data";
import { count, time } from "../format";
import { clockNote, type Jump } from "./meeting";
import { Details, spoken } from "./details";
import { colours, draw, type Marks } from "./draw";
import { after, Model } from "./model";
import { AXIS, HEAD, View } from "./view";

/** What to show of a timeline at first: a part of the common clock, a side of a collective. */
interface Wanted {
  sight?: [number, number];
  joint: number;
  rank: number | null;
}

export function Timelines({ data, theme }: { data: Data; theme: string }) {
  const [at, setAt] = useState(0);
  const wanted = useRef<Wanted>({ joint: -1, rank: null });
  const jump: Jump = (rank, joint, zoom) => {
    const own = data.timelines.findIndex(
      (timeline) => timeline.rank === rank && timeline.met.joint.includes(joint),
    );
    wanted.current = {
      ...wanted.current,
      joint,
      rank,
      sight: zoom ? undefined : wanted.current.sight,
    };
    setAt(zoom || own < 0 ? 0 : own);
  };
  return (
    <>
      {data.timelines.length > 1 && (
        <div class="tools" role="group" aria-label="Rank of the timeline">
          {data.timelines.map((timeline, place) => (
            <button
              key={place}
              type="button"
              aria-pressed={place === at}
              onClick={() => setAt(place)}
            >
              {timeline.joints ? "all ranks" : `rank ${timeline.label}`}
            </button>
          ))}
        </div>
      )}
      <Timeline
        key={at}
        packed={data.timelines[at]}
        data={data}
        theme={theme}
        wanted={wanted.current}
        jump={jump}
      />
    </>
  );
}

function jointsOf(data: Data) {
  return data.timelines.find((timeline) => timeline.joints)?.joints ?? [];
}

function about(packed: TimelineData): string {
  const name = packed.step
    ? packed.step_ns === null
      ? `${packed.step} of all ranks, with their collectives and messages`
      : `${packed.step} took ${time(packed.step_ns)} on the host`
    : packed.note;
  const parts = [name || "Collectives and messages of all ranks"];
  if (packed.step_ns !== null && packed.window_ns > packed.step_ns) {
    parts.push(
      `what it launched ends ${time(packed.window_ns - packed.step_ns)} later (dashed line: the step’s end)`,
    );
  }
  if (packed.together_ns > 0) {
    const short = `ranges shorter than ${time(packed.together_ns)} are drawn together (hatched)`;
    parts.push(`of ${count(packed.ranges)} ranges ${short}: ${count(packed.start.length)} boxes`);
  } else {
    parts.push(`${count(packed.ranges)} ranges, all drawn`);
  }
  return `${parts.filter(Boolean).join("; ")}.`;
}

interface Props {
  packed: TimelineData;
  data: Data;
  theme: string;
  wanted: Wanted;
  jump: Jump;
}

/** What is in sight at first, and what is selected. */
function begin(model: Model, wanted: Wanted): [View, number] {
  const view = new View(model);
  if (wanted.sight && model.packed.common_ns !== null) {
    view.set(wanted.sight[0] - model.offset, wanted.sight[1] - model.offset);
  }
  const range = wanted.joint < 0 ? -1 : model.sideOf(wanted.joint, `rank ${wanted.rank}`);
  if (range >= 0) {
    view.show(range);
  }
  return [view, range];
}

function Timeline({ packed, data, theme, wanted, jump }: Props) {
  const model = useMemo(() => new Model(packed, data.kinds, data.edges, jointsOf(data)), [packed]);
  const [view, first] = useMemo(() => begin(model, wanted), [model]);
  const [selected, select] = useState(first);
  useEffect(() => {
    if (first >= 0) {
      reveal(view, first, scroller.current);
      refresh();
    }
  }, [model]);
  useEffect(() => {
    wanted.sight =
      packed.common_ns === null || view.isAll()
        ? undefined
        : [view.from + model.offset, view.to + model.offset];
    [wanted.joint, wanted.rank] = [selected < 0 ? -1 : model.joint[selected], packed.rank];
  });
  const [text, setText] = useState("");
  const [hit, setHit] = useState(0);
  const [options, setOptions] = useState({ arrows: false, path: true });
  const [latest, setLatest] = useState(false);
  const arrange = (latestFirst: boolean) => {
    const caused = new Map(
      data.met?.ranks.map((rank) => [`rank ${rank.rank}`, Number(rank.caused_ns)]),
    );
    view.arrange(latestFirst ? (track) => caused.get(track.name) ?? 0 : undefined);
    setLatest(latestFirst);
  };
  const [, redraw] = useState(0);
  const found = useMemo(() => model.search(text), [model, text]);
  const marks: Marks = { selected, found: text.trim() ? new Set(found) : null, ...options };
  const refresh = () => redraw((times) => times + 1);

  const go = (range: number) => {
    select(range);
    if (range >= 0) {
      view.show(range);
      reveal(view, range, scroller.current);
    }
    refresh();
  };
  /** To another rank's side, which may be in this timeline. */
  const local: Jump = (rank, joint, here) =>
    here ? go(model.sideOf(joint, `rank ${rank}`)) : jump(rank, joint, here);
  const next = (by: number) => {
    if (found.length > 0) {
      const at = (hit + by + found.length) % found.length;
      setHit(at);
      go(found[at]);
    }
  };
  const scroller = useRef<HTMLDivElement>(null);
  const search = (wanted: string) => {
    setText(wanted);
    setHit(-1);
  };
  const act = (change: () => void) => () => {
    change();
    refresh();
  };
  return (
    <div class="timeline">
      <p class="note">
        {about(packed)} {packed.common_ns !== null && clockNote(data, packed)}
      </p>
      <div class="tools">
        <label class="filter">
          <span class="hidden">Search the timeline</span>
          <input
            id="search"
            type="search"
            placeholder="Search  ( / )"
            value={text}
            onInput={(event) => search(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter") {
                next(event.shiftKey ? -1 : 1);
              }
            }}
          />
        </label>
        <button
          type="button"
          disabled={found.length === 0}
          onClick={() => next(-1)}
          aria-label="Previous match"
        >
          ‹
        </button>
        <button
          type="button"
          disabled={found.length === 0}
          onClick={() => next(1)}
          aria-label="Next match"
        >
          ›
        </button>
        <span class="found" role="status">
          {text.trim() ? `${hit >= 0 ? `${hit + 1} of ` : ""}${count(found.length)} found` : ""}
        </span>
        <span class="space" />
        <button type="button" onClick={act(() => view.zoom(0.5))} aria-label="Zoom in">
          +
        </button>
        <button type="button" onClick={act(() => view.zoom(2))} aria-label="Zoom out">
          −
        </button>
        <button type="button" onClick={act(() => view.all())}>
          All
        </button>
        {packed.joints && (
          <label class="check">
            <input type="checkbox" checked={latest} onChange={() => arrange(!latest)} /> latest
            ranks first
          </label>
        )}
        <label class="check">
          <input
            type="checkbox"
            checked={options.arrows}
            onChange={() => setOptions({ ...options, arrows: !options.arrows })}
          />{" "}
          arrows
        </label>
        {packed.path.range.length > 0 && (
          <label class="check">
            <input
              type="checkbox"
              checked={options.path}
              onChange={() => setOptions({ ...options, path: !options.path })}
            />{" "}
            critical path
          </label>
        )}
      </div>
      <Canvas
        view={view}
        marks={marks}
        theme={theme}
        scroller={scroller}
        select={go}
        pick={select}
        refresh={refresh}
      />
      <p class="hidden" role="status">
        {selected >= 0 ? spoken(model, selected) : ""}
      </p>
      <div class="legend">
        {data.kinds
          .filter((_, kind) => packed.kind.includes(kind))
          .map((kind) => (
            <span key={kind}>
              <i style={{ background: `var(--box-${kind})` }} /> {kind}
            </span>
          ))}
        {packed.met.range.length > 0 && (
          <span>
            <i style={{ background: "var(--box-waiting)" }} /> waits for the last rank
          </span>
        )}
        {packed.path.range.length > 0 && (
          <span>
            <i class="path" /> on the critical path
          </span>
        )}
      </div>
      {selected >= 0 ? (
        <Details
          model={model}
          data={data}
          range={selected}
          select={go}
          jump={(rank, joint, zoom) =>
            packed.joints ? local(rank, joint, zoom) : jump(rank, joint, zoom)
          }
        />
      ) : (
        <p class="note">
          Select a range to see what it waited for. Ctrl + wheel zooms, drag moves; with the keys: w
          a s d.
        </p>
      )}
    </div>
  );
}

/** Scrolls a range's track into sight. */
function reveal(view: View, range: number, scroller: HTMLDivElement | null) {
  const place = view.place(range);
  if (scroller && place) {
    const y = view.y(place.row, place.lane) + view.top - AXIS;
    if (y < view.top + HEAD || y > view.top + view.height - AXIS - 40) {
      scroller.scrollTop = Math.max(0, y - (view.height - AXIS) / 2);
      view.top = scroller.scrollTop;
    }
  }
}

interface CanvasProps {
  view: View;
  marks: Marks;
  theme: string;
  scroller: { current: HTMLDivElement | null };
  /** Selects and brings into sight. */
  select: (range: number) => void;
  /** Selects where it is. */
  pick: (range: number) => void;
  refresh: () => void;
}

function Canvas({ view, marks, theme, scroller, select, pick, refresh }: CanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const latest = useRef({ marks, select, pick });
  latest.current = { marks, select, pick };
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
        ? watch(scroller.current, canvas.current, view, latest.current, refresh)
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
        aria-label="Timeline: w and s zoom, a and d move, brackets go from range to range, Enter fills the width, question mark lists all keys"
        onScroll={(event) => ((view.top = event.currentTarget.scrollTop), paint())}
        onKeyDown={(event) =>
          event.target === event.currentTarget &&
          key(event, view, latest.current.marks.selected, select, refresh)
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
              onClick={() => (view.fold(row.track), refresh())}
            >
              <span aria-hidden="true">{view.folded.has(row.track) ? "▸" : "▾"}</span>{" "}
              {head(view, row.track)}
            </button>
          ))}
        </div>
      </div>
    </div>
  );
}

function head(view: View, track: number) {
  const of = view.model.tracks[track];
  return of ? (
    <>
      {of.name} <small>{of.group}</small>
    </>
  ) : (
    "critical path"
  );
}

/** Keeps the canvas as large as its place, and takes the pointer. */
function watch(
  scroller: HTMLDivElement,
  canvas: HTMLCanvasElement,
  view: View,
  latest: { pick: (range: number) => void },
  refresh: () => void,
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
    refresh();
  };
  const size = new ResizeObserver(fit);
  size.observe(scroller);
  fit();
  const where = (event: MouseEvent): [number, number] => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const wheel = (event: WheelEvent) => {
    if (event.ctrlKey || event.metaKey) {
      view.zoom(Math.exp(Math.sign(event.deltaY) * 0.25), view.time(where(event)[0]));
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      view.pan((event.deltaX || event.deltaY) / view.width);
    } else {
      return;
    }
    event.preventDefault();
    refresh();
  };
  const pointers = new Map<number, [number, number]>();
  let moved = 0;
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
    }
  };
  const move = (event: PointerEvent) => {
    const before = pointers.get(event.pointerId);
    if (!before) {
      const { range } = view.hit(...where(event));
      scroller.style.cursor = range >= 0 ? "pointer" : "grab";
      scroller.title =
        range >= 0
          ? `${view.model.name(range).slice(0, 200)} · ${time(view.model.end[range] - view.model.start[range])}`
          : "";
      return;
    }
    const now = where(event);
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    if (others.length > 0) {
      const apart = (at: [number, number]) => Math.max(Math.abs(at[0] - others[0][0]), 10);
      view.zoom(apart(before) / apart(now), view.time((now[0] + others[0][0]) / 2));
    } else {
      view.pan((before[0] - now[0]) / view.width);
      if (event.pointerType === "mouse") {
        scroller.scrollTop += before[1] - now[1];
      }
    }
    moved += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    pointers.set(event.pointerId, now);
    refresh();
  };
  const up = (event: PointerEvent) => {
    if (pointers.delete(event.pointerId) && moved < 4 && event.type === "pointerup") {
      latest.pick(view.hit(...where(event)).range);
    }
  };
  scroller.addEventListener("wheel", wheel, { passive: false });
  scroller.addEventListener("pointerdown", down);
  scroller.addEventListener("pointermove", move);
  scroller.addEventListener("pointerup", up);
  scroller.addEventListener("pointercancel", up);
  return () => size.disconnect();
}

/** Keys of the timeline, when it has the focus. */
function key(
  event: KeyboardEvent,
  view: View,
  selected: number,
  select: (range: number) => void,
  refresh: () => void,
) {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const acts: { [key: string]: () => void } = {
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
    Escape: () => select(-1),
    "]": () => select(beside(view, selected, 1)),
    "[": () => select(beside(view, selected, -1)),
    Enter: () => selected >= 0 && view.fill(selected),
  };
  const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (act) {
    act();
    event.preventDefault();
    refresh();
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
