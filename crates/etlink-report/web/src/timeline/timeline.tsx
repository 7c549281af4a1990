// The timeline: which rank and step it is of, search, and what is selected.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Note } from "../charts";
import type { Data, Timeline as TimelineData } from "../data";
import { count, time } from "../format";
import type { Occurrence } from "../links";
import { useNavigation, type Span } from "../navigation";
import { AreaSums } from "./area";
import { Canvas, reveal, type Acts } from "./canvas";
import { Details, spoken } from "./details";
import type { Marks } from "./draw";
import { clockNote, type Jump } from "./meeting";
import type { Model } from "./model";
import { StepChoice } from "./steps";
import { View } from "./view";

export function Timelines({ data, theme }: { data: Data; theme: string }) {
  const navigation = useNavigation();
  const { links, current } = navigation;
  const at = current.timeline;
  const shown = data.timelines[at];
  /** First timeline of each rank, of all ranks the first. */
  const ranks = data.timelines.filter(
    (timeline, place) =>
      data.timelines.findIndex(
        (one) => one.label === timeline.label && !one.joints === !timeline.joints,
      ) === place,
  );
  const isShown = (timeline: TimelineData) =>
    timeline.label === shown.label && !timeline.joints === !shown.joints;
  const change = (wanted: TimelineData) => {
    const label = wanted.joints ? "all" : wanted.label;
    const same = links.timelineOf(label, shown.step);
    const timeline = same >= 0 ? same : data.timelines.indexOf(wanted);
    navigation.go({ timeline, area: null, ...sameSight(navigation, timeline) });
  };
  return (
    <>
      {ranks.length > 1 && (
        <div class="tools" role="group" aria-label="Rank of the timeline">
          {ranks.map((timeline) => (
            <button
              key={timeline.joints ? "all" : timeline.label}
              type="button"
              aria-pressed={isShown(timeline)}
              onClick={() => change(timeline)}
            >
              {timeline.joints ? "all ranks" : `rank ${timeline.label}`}
            </button>
          ))}
        </div>
      )}
      <StepChoice data={data} />
      <div role="status">
        {navigation.message && <Note text={navigation.message} kind="went" />}
      </div>
      <Timeline key={at} at={at} data={data} theme={theme} />
    </>
  );
}

/** What is in sight and selected, as another timeline has it; all where they have no clock in common. */
function sameSight(
  { links, current }: ReturnType<typeof useNavigation>,
  timeline: number,
): { sight: Span | null; selected: number } {
  const [before, next] = [links.model(current.timeline), links.model(timeline)];
  const joint = current.selected < 0 ? -1 : before.joint[current.selected];
  const { rank } = next.packed;
  const own = rank ?? (before.packed.joints ? null : before.packed.rank);
  const selected = joint < 0 ? -1 : next.sideOf(joint, `rank ${own}`);
  const isCommon = before.packed.common_ns !== null && next.packed.common_ns !== null;
  if (!current.sight || !isCommon) {
    return { sight: null, selected };
  }
  const by = before.offset - next.offset;
  return { sight: [current.sight[0] + by, current.sight[1] + by], selected };
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
      `its device work ends ${time(packed.window_ns - packed.step_ns)} later (dashed line: end of the step)`,
    );
  }
  if (packed.together_ns > 0) {
    const short = `shorter than ${time(packed.together_ns)} drawn together (hatched)`;
    parts.push(`${count(packed.ranges)} ranges, ${short}: ${count(packed.start.length)} boxes`);
  } else {
    parts.push(`${count(packed.ranges)} ranges, all drawn`);
  }
  return `${parts.filter(Boolean).join("; ")}.`;
}

/** What belongs to the selected range: kernels of an op, op and call of a kernel. */
function relatedTo(model: Model, selected: number): Set<number> {
  if (selected < 0) {
    return new Set();
  }
  const rows = model.rowsOf(selected);
  const causes = model.isRow(selected) ? [model.op[selected], model.launchOf(selected)] : [];
  return new Set([...rows, ...causes].filter((range) => range >= 0));
}

function Timeline({ at, data, theme }: { at: number; data: Data; theme: string }) {
  const navigation = useNavigation();
  const { links, current } = navigation;
  const model = links.model(at);
  const { packed } = model;
  const view = useMemo(() => new View(model), [model]);
  const visit = useRef(-1);
  if (visit.current !== navigation.visit) {
    visit.current = navigation.visit;
    if (current.sight) {
      view.set(...current.sight);
    } else {
      view.all();
    }
  }
  const { selected, area } = current;
  const scroller = useRef<HTMLDivElement>(null);
  const [, redraw] = useState(0);
  const refresh = () => redraw((times) => times + 1);
  useEffect(() => {
    if (selected >= 0) {
      reveal(view, selected, scroller.current);
    }
    // Keys such as n go on from a link without a click, where the timeline was what was asked for.
    if (navigation.visit > 0 && current.section === "timeline") {
      scroller.current?.focus({ preventScroll: true });
    }
    refresh();
  }, [model, navigation.visit]);
  useEffect(() => {
    // The canvas has its width only now, and the view may have been limited.
    navigation.keep({ sight: view.isAll() ? null : [view.from, view.to] });
  });
  const [text, setText] = useState("");
  const [hit, setHit] = useState(0);
  const [options, setOptions] = useState({ arrows: false, path: true });
  const [isMarking, setMarking] = useState(false);
  const [latest, setLatest] = useState(false);
  const arrange = (latestFirst: boolean) => {
    const caused = new Map(
      data.met?.ranks.map((rank) => [`rank ${rank.rank}`, Number(rank.caused_ns)]),
    );
    view.arrange(latestFirst ? (track) => caused.get(track.name) ?? 0 : undefined);
    setLatest(latestFirst);
  };
  const found = useMemo(() => model.search(text), [model, text]);
  const related = useMemo(() => relatedTo(model, selected), [model, selected]);
  const marks: Marks = {
    selected,
    related,
    area,
    found: text.trim() ? new Set(found) : null,
    ...options,
  };
  const pick = (range: number) => {
    navigation.keep({ selected: range, area: null }, true);
    refresh();
  };
  const go = (range: number) => {
    if (range >= 0) {
      view.show(range);
      reveal(view, range, scroller.current);
    }
    pick(range);
  };
  const mark = (wanted: Span | null, isDone: boolean) => {
    navigation.keep({ selected: -1, area: wanted }, isDone);
    refresh();
  };
  const occurrences = useMemo(
    () => (selected < 0 || packed.joints ? [] : occurrencesOf(links, model, selected)),
    [links, model, selected],
  );
  const place = occurrences.findIndex((one) =>
    isSame(links, one, { timeline: at, range: selected }),
  );
  const again = (by: number) => {
    const next = occurrences[place + by];
    if (place >= 0 && next) {
      if (next.timeline === at) {
        go(next.range);
      } else {
        navigation.go(links.show(next));
      }
    }
  };
  const acts: Acts = { select: go, pick, mark, again, refresh };
  const jump: Jump = (rank, joint, isAll) => {
    const timeline = links.timelineOf(isAll ? "all" : labelOf(data, rank), packed.step);
    if (timeline >= 0) {
      const range = links.model(timeline).sideOf(joint, `rank ${rank}`);
      if (timeline === at) {
        go(range);
      } else {
        navigation.go(links.show({ timeline, range }));
      }
    }
  };
  const next = (by: number) => {
    if (found.length > 0) {
      const place = (hit + by + found.length) % found.length;
      setHit(place);
      go(found[place]);
    }
  };
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
        <button
          type="button"
          aria-pressed={isMarking}
          title="Drag in the timeline to select time. Without this, drag with Shift."
          onClick={() => setMarking(!isMarking)}
        >
          Select time
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
        isMarking={isMarking}
        acts={acts}
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
      {area && (
        <AreaSums
          model={model}
          area={area}
          select={go}
          fill={act(() => view.fillSpan(area))}
          clear={() => mark(null, true)}
        />
      )}
      {selected >= 0 && (
        <Details
          model={model}
          data={data}
          range={selected}
          occurrences={{ place, count: occurrences.length, again }}
          select={go}
          jump={jump}
        />
      )}
      {selected < 0 && !area && (
        <p class="note">
          Click a range to see what it waited for. The wheel zooms, drag moves, drag with Shift
          selects time. Keys: w a s d, and ? for all.
        </p>
      )}
    </div>
  );
}

/** The label of the rank of a number. */
function labelOf(data: Data, rank: number): string {
  return data.timelines.find((one) => !one.joints && one.rank === rank)?.label ?? String(rank);
}

type AllLinks = ReturnType<typeof useNavigation>["links"];

function occurrencesOf(links: AllLinks, model: Model, range: number): Occurrence[] {
  if (model.packed.count[range] > 1) {
    return [];
  }
  return links.occurrences(model.packed.label, model.name(range), model.isRow(range));
}

/** Whether two are one range, which the windows of two steps may both have. */
function isSame(links: AllLinks, one: Occurrence, other: Occurrence): boolean {
  const begin = ({ timeline, range }: Occurrence) => {
    const model = links.model(timeline);
    return range < 0
      ? ""
      : `${model.tracks[model.track[range]].name} ${model.packed.origin_ns + model.start[range]}`;
  };
  return begin(one) === begin(other);
}
