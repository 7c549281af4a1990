// Bars: steps, what time goes to, overlap.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Data, ReportRank } from "./data";
import { percent, time, timeUnit } from "./format";

/** A part of a bar. `name` picks the colour. */
export interface Part {
  name: string;
  ns: number;
}

export interface Bar {
  label: string;
  parts: Part[];
}

/** Bars to show at first. */
const SHOWN = 32;

/** Bars of equal length that show shares. */
export function Stacked({
  bars,
  names,
  label,
  whole: head,
}: {
  bars: Bar[];
  names: string[];
  label: string;
  whole: string;
}) {
  const [all, setAll] = useState(false);
  const used = names.filter((name) =>
    bars.some((bar) => bar.parts.some((part) => part.name === name && part.ns > 0)),
  );
  return (
    <div class="stacked" role="group" aria-label={label}>
      <div class="above">
        <Legend names={used} />
        <span class="head-of-values">{head}</span>
      </div>
      {bars.slice(0, all ? bars.length : SHOWN).map((bar) => {
        const whole = bar.parts.reduce((sum, part) => sum + part.ns, 0);
        const text = bar.parts
          .filter((part) => part.ns > 0)
          .map((part) => `${part.name} ${percent(part.ns / whole)}`);
        return (
          <div class="bar" key={bar.label}>
            <span class="label">{bar.label}</span>
            <div class="parts" role="img" aria-label={`${bar.label}: ${text.join(", ")}`}>
              {bar.parts
                .filter((part) => part.ns > 0)
                .map((part) => (
                  <div
                    key={part.name}
                    class={`part fill-${word(part.name)}`}
                    style={{ flex: String(part.ns / whole) }}
                    title={`${part.name}: ${time(part.ns)}, ${percent(part.ns / whole)}`}
                    data-part={part.name}
                    data-value={part.ns}
                  >
                    <span>{percent(part.ns / whole)}</span>
                  </div>
                ))}
            </div>
            <span class="value">{time(whole)}</span>
          </div>
        );
      })}
      {bars.length > SHOWN && (
        <button type="button" class="more" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? `Show ${SHOWN}` : `Show all ${bars.length}`}
        </button>
      )}
    </div>
  );
}

function word(name: string): string {
  return name.replaceAll(" ", "-");
}

export function Legend({ names }: { names: string[] }) {
  return (
    <div class="legend">
      {names.map((name) => (
        <span key={name}>
          <i class={`fill-${word(name)}`} /> {name}
        </span>
      ))}
    </div>
  );
}

/** The width that there is, px. */
export function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    if (!place.current) {
      return;
    }
    const size = new ResizeObserver(([entry]) => setWidth(Math.max(entry.contentRect.width, 240)));
    size.observe(place.current);
    return () => size.disconnect();
  }, []);
  return [place, width];
}

interface StepRow {
  name: string;
  /** Per rank; undefined: it does not have the step. */
  ns: (number | undefined)[];
}

/** All ranks' steps by name, in the order of the first rank that has them. */
export function stepRows(ranks: ReportRank[]): StepRow[] {
  const rows = new Map<string, StepRow>();
  ranks.forEach((rank, at) => {
    for (const step of rank.steps ?? []) {
      const row = rows.get(step.name) ?? { name: step.name, ns: [] };
      row.ns[at] = step.duration_ns;
      rows.set(step.name, row);
    }
  });
  return [...rows.values()];
}

const HEIGHT = 190;
const LEFT = 56;
const BOTTOM = 24;
/** With so many bars at most each rank has its own. */
const BARS = 96;

/** A column per step: a bar per rank, or, where those are too many, the slowest rank's with a mark for each. */
export function Steps({
  data,
  drawn,
  choose,
}: {
  data: Data;
  drawn: string | null;
  /** Goes to a rank's step. */
  choose: (rank: string, step: string) => void;
}) {
  const [place, width] = useWidth();
  const rows = stepRows(data.ranks);
  const most = Math.max(...rows.flatMap((row) => row.ns.filter((ns) => ns !== undefined)));
  const [unit, size] = timeUnit(most);
  const tick = nice(most / size / 4) * size;
  const top = Math.ceil(most / tick) * tick;
  const y = (ns: number) => (HEIGHT - BOTTOM) * (1 - ns / top) + 6;
  const column = (width - LEFT) / rows.length;
  const every = Math.ceil(64 / column);
  const ticks = Array.from({ length: Math.round(top / tick) + 1 }, (_, at) => at * tick);
  const each = rows.length * data.ranks.length <= BARS;
  return (
    <div ref={place} class="chart">
      <svg
        width={width}
        height={HEIGHT + 8}
        role="img"
        aria-label={`Time per step: ${rows.length} steps, the longest ${time(most)}`}
      >
        {ticks.map((at) => (
          <g key={at}>
            <line x1={LEFT} x2={width} y1={y(at)} y2={y(at)} class="grid" />
            <text x={LEFT - 8} y={y(at)} class="tick" text-anchor="end" dominant-baseline="middle">
              {Number((at / size).toPrecision(6))} {unit}
            </text>
          </g>
        ))}
        {rows.map((row, at) => (
          <g key={row.name} data-step={row.name}>
            <Column
              row={row}
              data={data}
              from={LEFT + column * at}
              width={column}
              y={y}
              drawn={row.name === drawn}
              each={each}
              choose={choose}
            />
            {at % every === 0 && (
              <text x={LEFT + column * (at + 0.5)} y={HEIGHT} class="tick" text-anchor="middle">
                {short(row.name, column)}
              </text>
            )}
          </g>
        ))}
      </svg>
      <div class="legend">
        {data.ranks.length > 1 && (
          <span>
            {each ? "Bars of a step: ranks, in order" : "Bars: the slowest rank; lines: each rank"}
          </span>
        )}
        {drawn && rows.length > 1 && (
          <span>
            <i class="fill-drawn" /> the step of the timeline
          </span>
        )}
      </div>
    </div>
  );
}

interface ColumnProps {
  row: StepRow;
  data: Data;
  from: number;
  width: number;
  y: (ns: number) => number;
  drawn: boolean;
  each: boolean;
  choose: (rank: string, step: string) => void;
}

function Column({ row, data, from, width, y, drawn, each, choose }: ColumnProps) {
  const known = row.ns.flatMap((ns, rank) =>
    ns === undefined ? [] : [{ ns, label: data.ranks[rank].label }],
  );
  const room = Math.min(width * 0.76, each ? 44 * known.length : 64);
  const left = from + (width - room) / 2;
  const name = drawn ? "step drawn" : "step";
  if (each) {
    const one = room / known.length;
    return (
      <>
        {known.map(({ ns, label }, at) => (
          <rect
            key={label}
            x={left + one * at}
            y={y(ns)}
            width={Math.max(one - 2, 1)}
            height={Math.max(y(0) - y(ns), 1)}
            rx={2}
            class={name}
            data-value={ns}
            onClick={() => choose(label, row.name)}
          >
            <title>{`${row.name}, rank ${label}: ${time(ns)}`}</title>
          </rect>
        ))}
      </>
    );
  }
  const slowest = Math.max(...known.map(({ ns }) => ns));
  const last = known.find(({ ns }) => ns === slowest);
  const tip = known.slice(0, 40).map(({ ns, label }) => `rank ${label}: ${time(ns)}`);
  return (
    <>
      <title>{`${row.name}\n${tip.join("\n")}`}</title>
      <rect
        x={left}
        y={y(slowest)}
        width={room}
        height={Math.max(y(0) - y(slowest), 1)}
        rx={2}
        class={name}
        data-value={slowest}
        onClick={() => last && choose(last.label, row.name)}
      />
      {known.length > 1 &&
        known.map(({ ns, label }) => (
          <line key={label} x1={left} x2={left + room} y1={y(ns)} y2={y(ns)} class="rank" />
        ))}
    </>
  );
}

/** A step's name, or what there is room for. */
function short(name: string, room: number): string {
  const letters = Math.floor(room / 8);
  const number = /\d+$/.exec(name);
  return name.length <= letters
    ? name
    : number && name.startsWith("ProfilerStep#")
      ? number[0]
      : `…${name.slice(-Math.max(letters - 1, 4))}`;
}

/** 1, 2 or 5 times a power of ten, not less than `least`. */
export function nice(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return (
    [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least * 0.999) ?? power * 10
  );
}

/** A line of text below something; commands in it stand between backticks. */
export function Note({ text, kind = "" }: { text: string; kind?: string }) {
  return <p class={`note ${kind}`}>{marked(text)}</p>;
}

/** What stands between backticks as code, that breaks at spaces only. */
export function marked(text: string): ComponentChildren[] {
  return text
    .split("`")
    .map((part, at) =>
      at % 2 === 0 ? (
        part
      ) : (
        <code>
          {part
            .split(" ")
            .flatMap((word, at) => [at > 0 ? " " : "", <span class="whole">{word}</span>])}
        </code>
      ),
    );
}

/** A line of text before a chart. */
export function Say({ children }: { children: ComponentChildren }) {
  return <p class="say">{children}</p>;
}
