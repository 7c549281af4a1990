// Bars: steps, what time goes to, overlap.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Data, Rank } from "./data";
import { percent, time, timeUnit } from "./format";

/** A part of a bar. `name` picks the colour. */
export interface Part {
  name: string;
  ns: number;
}

export interface Bar {
  label: string;
  parts: Part[];
  note?: string;
}

/** Bars of equal length that show shares. */
export function Stacked({ bars, names, label }: { bars: Bar[]; names: string[]; label: string }) {
  const used = names.filter((name) => bars.some((bar) => bar.parts.some((part) => part.name === name && part.ns > 0)));
  return (
    <div class="stacked" role="group" aria-label={label}>
      <Legend names={used} />
      {bars.map((bar) => {
        const whole = bar.parts.reduce((sum, part) => sum + part.ns, 0);
        const text = bar.parts.filter((part) => part.ns > 0).map((part) => `${part.name} ${percent(part.ns / whole)}`);
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
                    style={`flex: ${part.ns / whole}`}
                    title={`${part.name}: ${time(part.ns)}, ${percent(part.ns / whole)}`}
                    data-part={part.name}
                    data-value={part.ns}
                  >
                    {part.ns / whole > 0.08 ? percent(part.ns / whole) : ""}
                  </div>
                ))}
            </div>
            <span class="value">{bar.note ?? time(whole)}</span>
          </div>
        );
      })}
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
function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    if (!place.current) {
      return;
    }
    const size = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
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
export function stepRows(ranks: Rank[]): StepRow[] {
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

/** A column per step, as high as the slowest rank; a mark per rank. */
export function Steps({ data, drawn }: { data: Data; drawn: string | null }) {
  const [place, width] = useWidth();
  const rows = stepRows(data.ranks);
  const most = Math.max(...rows.flatMap((row) => row.ns.filter((ns) => ns !== undefined)));
  const [unit, size] = timeUnit(most);
  const tick = nice(most / size / 4) * size;
  const top = Math.ceil(most / tick) * tick;
  const y = (ns: number) => (HEIGHT - BOTTOM) * (1 - ns / top) + 6;
  const column = (width - LEFT) / rows.length;
  const bar = Math.min(column * 0.7, 64);
  const every = Math.ceil(64 / column);
  const ticks = Array.from({ length: Math.round(top / tick) + 1 }, (_, at) => at * tick);
  return (
    <div ref={place} class="chart">
      <svg width={width} height={HEIGHT + 8} role="img" aria-label={`Time per step: ${rows.length} steps, the longest ${time(most)}`}>
        {ticks.map((at) => (
          <g key={at}>
            <line x1={LEFT} x2={width} y1={y(at)} y2={y(at)} class="grid" />
            <text x={LEFT - 8} y={y(at)} class="tick" text-anchor="end" dominant-baseline="middle">
              {Number((at / size).toPrecision(6))} {unit}
            </text>
          </g>
        ))}
        {rows.map((row, at) => {
          const known = row.ns.filter((ns) => ns !== undefined);
          const [slowest, middle] = [Math.max(...known), LEFT + column * (at + 0.5)];
          const tip = row.ns.map((ns, rank) => (ns === undefined ? "" : `rank ${data.ranks[rank].label}: ${time(ns)}`)).filter(Boolean);
          return (
            <g key={row.name} data-step={row.name} data-value={slowest}>
              <title>{`${row.name}\n${tip.slice(0, 40).join("\n")}`}</title>
              <rect x={middle - bar / 2} y={y(slowest)} width={bar} height={Math.max(y(0) - y(slowest), 1)} rx={2} class={row.name === drawn ? "step drawn" : "step"} />
              {known.length > 1 && known.map((ns, rank) => <line key={rank} x1={middle - bar / 2} x2={middle + bar / 2} y1={y(ns)} y2={y(ns)} class="rank" />)}
              {at % every === 0 && (
                <text x={middle} y={HEIGHT} class="tick" text-anchor="middle">
                  {short(row.name)}
                </text>
              )}
            </g>
          );
        })}
      </svg>
      <div class="legend">
        <span>
          <i class="fill-step" /> {data.ranks.length > 1 ? "slowest rank" : "step"}
        </span>
        {data.ranks.length > 1 && (
          <span>
            <i class="line" /> each rank
          </span>
        )}
        {drawn && (
          <span>
            <i class="fill-drawn" /> the step of the timeline
          </span>
        )}
      </div>
    </div>
  );
}

function short(name: string): string {
  const number = /\d+$/.exec(name);
  return number && name.startsWith("ProfilerStep#") ? number[0] : name.length > 12 ? `…${name.slice(-10)}` : name;
}

function nice(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least * 0.999) ?? power * 10;
}

/** A line of text before a chart. */
export function Say({ children }: { children: ComponentChildren }) {
  return <p class="say">{children}</p>;
}
