// The arrival delay of each rank at each collective: a map of ranks by collectives.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Data, RankStats } from "./data";
import { time } from "./format";
import { useNavigation } from "./navigation";
import { colours } from "./timeline/draw";

const LEFT = 64;
/** How strong the colour of 0 is: a cell without a colour is one of a rank that takes no part. */
const LEAST = 0.2;

export function Heat({ met, data, theme }: { met: RankStats; data: Data; theme: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const place = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  const [at, setAt] = useState<[number, number] | null>(null);
  const { follow } = useNavigation();
  const ranks = met.ranks.map((rank) => rank.rank);
  const columns = met.late.first.length;
  const most = Math.max(...met.late.ns.flat().map((ns) => ns ?? 0), 1);
  const high = Math.min(Math.max(Math.floor(320 / ranks.length), 3), 26);
  const wide = (width - LEFT) / columns;
  useEffect(() => {
    const size = new ResizeObserver(([entry]) => setWidth(Math.max(entry.contentRect.width, 240)));
    if (place.current) {
      size.observe(place.current);
    }
    return () => size.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current) {
      paint(canvas.current, met, width, high, most, at);
    }
  }, [width, theme, at, met]);
  const move = (rank: number, column: number) =>
    setAt([clamp(rank, ranks.length), clamp(column, columns)]);
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    move(
      Math.floor((event.clientY - box.top) / high),
      Math.floor((event.clientX - box.left - LEFT) / wide),
    );
  };
  const show = ([rank, column]: [number, number]) => {
    const collective = met.skews[met.late.first[column]];
    if (collective && met.late.ns[rank][column] !== null) {
      follow({ kind: "collective", collective, rank: met.ranks[rank].rank });
    }
  };
  const keys = (event: KeyboardEvent) => {
    const steps: { [key: string]: [number, number] } = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    };
    const step = steps[event.key];
    if (event.key === "Enter" && at) {
      show(at);
    } else if (step) {
      move((at?.[0] ?? 0) + step[0], (at?.[1] ?? 0) + step[1]);
      event.preventDefault();
    }
  };
  return (
    <div ref={place} class="heat">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`Arrival delay of each of ${ranks.length} ranks at ${met.count} collectives and messages; arrow keys move between cells`}
        onPointerMove={point}
        onPointerLeave={() => setAt(null)}
        onClick={() => at && show(at)}
        onKeyDown={keys}
      />
      <div class="scale" aria-hidden="true">
        0 <i /> {time(most)} after the first
        {met.late.ns.flat().some((ns) => ns === null) && "; empty: does not take part"}
      </div>
      <p class="note tip" role="status">
        {at
          ? tip(met, data, at)
          : "Rows are ranks; columns are collectives and messages in order of time. Point at a cell, or use the arrow keys. Click or press Enter to show it in the timeline."}
      </p>
    </div>
  );
}

function clamp(value: number, count: number): number {
  return Math.min(Math.max(value, 0), count - 1);
}

function tip(met: RankStats, data: Data, [rank, column]: [number, number]): string {
  const skew = met.skews[met.late.first[column]];
  const each = Math.ceil(met.count / met.late.first.length);
  const ns = met.late.ns[rank][column];
  const what = skew
    ? `${skew.kind.replaceAll("_", " ")}, ${skew.ranks}, number ${skew.number}${each > 1 ? ` and the next ${each - 1}` : ""}`
    : "";
  const late =
    ns === null
      ? "does not take part"
      : ns === 0
        ? "arrived first"
        : `arrived ${time(ns)} after the first${each > 1 ? " (mean)" : ""}`;
  const label = met.ranks[rank].rank ?? data.ranks[rank]?.label;
  return `Rank ${label} ${late}: ${what}.`;
}

function paint(
  canvas: HTMLCanvasElement,
  met: RankStats,
  width: number,
  high: number,
  most: number,
  at: [number, number] | null,
) {
  const scale = window.devicePixelRatio || 1;
  const height = high * met.ranks.length;
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) {
    return;
  }
  const colour = colours(canvas);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "right";
  const wide = (width - LEFT) / met.late.first.length;
  const every = Math.ceil(13 / high);
  met.late.ns.forEach((cells, rank) => {
    context.fillStyle = colour("text");
    if (rank % every === 0) {
      context.fillText(`rank ${met.ranks[rank].rank}`, LEFT - 8, (rank + 0.5) * high);
    }
    cells.forEach((ns, column) => {
      const gap = wide > 5 ? 1 : 0;
      if (ns !== null) {
        context.globalAlpha = LEAST + (1 - LEAST) * Math.sqrt(ns / most);
        context.fillStyle = colour("heat");
        context.fillRect(LEFT + column * wide, rank * high, wide - gap, high - (high > 5 ? 1 : 0));
        context.globalAlpha = 1;
      }
    });
  });
  if (at) {
    context.strokeStyle = colour("text");
    context.lineWidth = 2;
    context.strokeRect(LEFT + at[1] * wide, at[0] * high, wide, high);
  }
}
