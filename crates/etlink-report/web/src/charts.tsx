// Bars that show shares: what time goes to, overlap. And what all charts need.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { percent, time } from "./format";

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

/** Bars of equal length that show shares, with the shares as text in them. A library of charts would
 * draw them on a canvas, without the text that a screen reader and a search find: elements with a
 * width do more in fewer lines. */
export function Stacked({
  bars,
  names,
  label,
  whole: head,
  thin = false,
  idle = [],
  lengths = true,
}: {
  bars: Bar[];
  names: string[];
  label: string;
  whole: string;
  thin?: boolean;
  /** Names of causes of idle time, which the legend says. */
  idle?: string[];
  /** False to leave out the lengths of bars. */
  lengths?: boolean;
}) {
  const [all, setAll] = useState(false);
  const used = names.filter((name) =>
    bars.some((bar) => bar.parts.some((part) => part.name === name && part.ns > 0)),
  );
  return (
    <div
      class={`stacked${thin ? " thin" : ""}${lengths ? "" : " bare"}`}
      role="group"
      aria-label={label}
    >
      {used.length > 0 && (
        <div class="above">
          <Legend names={used} idle={idle} />
          <span class="head-of-values">{head}</span>
        </div>
      )}
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
            {lengths && <span class="value">{time(whole)}</span>}
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

export function Legend({ names, idle = [] }: { names: string[]; idle?: string[] }) {
  return (
    <div class="legend">
      {names.map((name) => (
        <span key={name}>
          <i class={`fill-${word(name)}`} /> {idle.includes(name) ? `idle: ${name}` : name}
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
