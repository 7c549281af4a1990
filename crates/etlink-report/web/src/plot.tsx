// Charts over time or steps: uPlot draws axes and lines, zooms by a drag and finds the cursor's
// place. It has no dependencies, takes 51 KB, and needs neither inline styles nor scripts, which
// the page's policy forbids.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useWidth } from "./charts";
import { colours, type Colours } from "./timeline/draw";

const FONT = "12px system-ui, sans-serif";
/** Room for the words of an x axis, px. */
export const BELOW = 28;
/** What moves farther is a drag, px. */
const CLICK = 4;
/** How much closer a key zooms in. */
const CLOSER = 2;

/** What is drawn: the chart's series, axes and the scales of values. */
export interface Drawing {
  series: uPlot.Series[];
  axes: uPlot.Axis[];
  y: uPlot.Scale.Range;
  /** Draws more, behind the series. */
  behind?: (plot: uPlot) => void;
}

interface Props {
  label: string;
  data: uPlot.AlignedData;
  height: number;
  /** The least and the greatest place along the x axis. */
  whole: [number, number];
  /** Called again when a theme has other colours. */
  drawing: (colour: Colours) => Drawing;
  theme: string;
  /** The number of places that keys stop at. */
  places: number;
  /** The place at the cursor: the nearest, or where values last until the next, the last before. */
  lasting?: boolean;
  pick: (place: number) => void;
  /** What a click, or Enter, does at a place. */
  choose?: (place: number) => void;
  picked: number | null;
  /** What stands below, beside what leads back from a zoom. */
  children?: ComponentChildren;
}

export function Plot(props: Props) {
  const { label, data, height, whole, theme, places, lasting, pick, picked } = props;
  const [place, width] = useWidth();
  const area = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [zoomed, setZoomed] = useState(false);
  const showAll = () => plot.current?.setScale("x", { min: whole[0], max: whole[1] });
  useEffect(() => {
    if (!area.current) {
      return;
    }
    const { series, axes, y, behind } = props.drawing(colours(area.current));
    const style = axisStyle(colours(area.current));
    const made = new uPlot(
      {
        width,
        height,
        series,
        axes: axes.map((axis) => ({ ...style, ...axis })),
        scales: {
          // Without this uPlot would show from the first to the last value.
          x: { time: false, min: whole[0], max: whole[1], range: (_, min, max) => [min, max] },
          y: { range: y },
        },
        legend: { show: false },
        cursor: {
          y: false,
          dataIdx: lasting ? lastBefore : undefined,
          bind: { dblclick: () => () => (showAll(), null) },
        },
        hooks: {
          drawClear: behind ? [behind] : [],
          setCursor: [
            (plot) => {
              // What is said stays when the cursor has left, as it may lead somewhere.
              const at = placeOf(plot, lasting, places);
              if (at !== null) {
                pick(at);
              }
            },
          ],
          setScale: [
            (plot, key) => {
              const { min, max } = plot.scales.x;
              if (key === "x") {
                setZoomed((min ?? whole[0]) > whole[0] || (max ?? whole[1]) < whole[1]);
              }
            },
          ],
        },
      },
      data,
      area.current,
    );
    plot.current = made;
    return () => made.destroy();
  }, [data, theme]);
  useEffect(() => plot.current?.setSize({ width, height }), [width]);
  // A drag zooms, and ends with a click that chooses nothing.
  const pressed = useRef(0);
  const click = (event: MouseEvent) => {
    const at = plot.current && placeOf(plot.current, lasting, places);
    if (at !== null && Math.abs(event.clientX - pressed.current) < CLICK) {
      props.choose?.(at);
    }
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) {
      const next = Math.min(Math.max((picked ?? -1) + by, 0), places - 1);
      pick(next);
      showPlace(plot.current, data[0][next]);
    } else if (event.key === "Enter" && picked !== null) {
      props.choose?.(picked);
    } else if (event.key === "0" || event.key === "Escape") {
      showAll();
    } else if ("+-ws".includes(event.key)) {
      const closer = event.key === "+" || event.key === "w" ? CLOSER : 1 / CLOSER;
      zoomBy(plot.current, closer, picked === null ? undefined : data[0][picked], whole);
    } else {
      return;
    }
    event.preventDefault();
  };
  return (
    <div ref={place} class="plot">
      <div
        ref={area}
        tabIndex={0}
        role="application"
        aria-label={`${label}. Left and right arrows go from value to value, + and - zoom, 0 shows all`}
        style={{ height: `${height}px` }}
        onKeyDown={keys}
        onPointerDown={(event) => (pressed.current = event.clientX)}
        onClick={click}
        class={props.choose ? "clickable" : ""}
      />
      <div class="below">
        {props.children}
        {zoomed && (
          <button type="button" onClick={showAll}>
            Show all
          </button>
        )}
      </div>
    </div>
  );
}

function axisStyle(colour: Colours): uPlot.Axis {
  const line = { stroke: colour("line"), width: 1 };
  return { stroke: colour("quiet"), font: FONT, grid: line, ticks: { ...line, size: 4 } };
}

/** Values that last until the next: that of the cursor is the last one before it. */
function lastBefore(plot: uPlot, _: number, closest: number, x: number): number {
  return plot.data[0][closest] > x ? Math.max(closest - 1, 0) : closest;
}

function placeOf(plot: uPlot, lasting: boolean | undefined, places: number): number | null {
  const { idx, left } = plot.cursor;
  if (idx === null || idx === undefined || left === undefined || left < 0) {
    return null;
  }
  const at = lasting ? lastBefore(plot, 0, idx, plot.posToVal(left, "x")) : idx;
  return Math.min(at, places - 1);
}

/** Puts the cursor's line to a place that a key led to, and moves what is shown there. */
function showPlace(plot: uPlot | null, x: number) {
  if (!plot) {
    return;
  }
  const [min, max] = [plot.scales.x.min ?? x, plot.scales.x.max ?? x];
  if (x < min || x > max) {
    const half = (max - min) / 2;
    plot.setScale("x", { min: x - half, max: x + half });
  }
  // Not told to `pick`: several places may lie at one pixel.
  plot.setCursor({ left: plot.valToPos(x, "x"), top: 0 }, false);
}

function zoomBy(plot: uPlot | null, closer: number, x: number | undefined, whole: number[]) {
  if (!plot) {
    return;
  }
  const [min, max] = [plot.scales.x.min ?? whole[0], plot.scales.x.max ?? whole[1]];
  const at = x ?? (min + max) / 2;
  plot.setScale("x", {
    min: Math.max(at - (at - min) / closer, whole[0]),
    max: Math.min(at + (max - at) / closer, whole[1]),
  });
}
