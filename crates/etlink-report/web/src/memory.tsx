// Memory over time: what tensors held and what the allocator had taken, per device of a rank.

import { useMemo, useState } from "preact/hooks";
import uPlot from "uplot";
import { marked, Say } from "./charts";
import type { Data, MemoryChart, ReportRank } from "./data";
import { bytes, count, time, timeUnit } from "./format";
import { useNavigation } from "./navigation";
import { BELOW, Plot, type Drawing } from "./plot";
import { RankChoice } from "./sections";
import type { Colours } from "./timeline/draw";

const HEIGHT = 170;
/** Room for sizes, px. */
const LEFT = 72;
/** Colours of allocation stacks, the largest first; those of the style sheet's `fill-stack-`. */
const STACKS = [
  "computation",
  "communication",
  "memory",
  "other",
  "waiting",
  "path",
  "box-op",
  "box-call",
  "box-waiting",
];
/** With so many steps at most each is marked. */
const STEPS = 60;

export function MemorySection({ data, theme }: { data: Data; theme: string }) {
  const first = data.ranks.findIndex((rank) => rank.memory_charts.length > 0);
  const [at, setAt] = useState(first);
  const rank = data.ranks[at];
  return (
    <>
      <Say>
        <em>Allocated</em> is memory held by tensors; <em>reserved</em> is memory that the allocator
        took from the device. The CPU’s allocator counts neither: its line is the change since the
        start of the recording, which can be negative.
      </Say>
      {data.ranks.length > 1 && (
        <div class="tools">
          <RankChoice data={data} rank={at} choose={setAt} all={false} />
        </div>
      )}
      {rank.memory_charts.length === 0 && (
        <p class="note">The trace of rank {rank.label} has no allocations.</p>
      )}
      {rank.memory_charts.map((chart) => (
        <Chart
          key={`${at} ${chart.device_type} ${chart.device}`}
          data={data}
          rank={rank}
          chart={chart}
          theme={theme}
        />
      ))}
    </>
  );
}

/** The values of a chart from the recording's begin on, and what of it is shown. */
interface Curve {
  /** Since the recording's begin, ns; the last is its end, with the values before it. */
  data: [number[], number[], number[], ...number[][]];
  from: number;
  to: number;
  points: number;
}

function curveOf(rank: ReportRank, chart: MemoryChart): Curve {
  let at = 0;
  const times = chart.time_ns.map((step) => (at += step));
  const window = rank.link?.window;
  const from = Math.min(window?.start_ns ?? times[0], times[0]);
  const to = Math.max(window?.end_ns ?? at, at, from + 1);
  const last = times.length - 1;
  const { allocated_bytes, reserved_bytes } = chart;
  return {
    data: [
      [...times, to].map((time) => time - from),
      [...allocated_bytes, allocated_bytes[last]],
      [...reserved_bytes, reserved_bytes[last]],
      ...stacked(chart).map((sums) => [...sums, sums[last]]),
    ],
    from,
    to,
    points: times.length,
  };
}

/** The sums of the largest stacks and of all larger ones, from the smallest stack on: each area is
 * drawn over the part of the one before it that belongs to larger stacks. */
function stacked(chart: MemoryChart): number[][] {
  const sums: number[][] = [];
  for (const stack of chart.stacks) {
    const below = sums.at(-1);
    sums.push(stack.bytes.map((bytes, at) => bytes + (below?.[at] ?? 0)));
  }
  return sums.reverse();
}

function drawCurve(colour: Colours, curve: Curve, reserves: boolean, steps: number[]): Drawing {
  const stacks = curve.data.length - 3;
  // uPlot's type says that it may have been left out of the build, which it was not.
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const line = { paths: stepped, points: { show: false } };
  const [unit, size] = timeUnit(curve.to - curve.from);
  const value = (at: number) => (at === 0 ? "0" : `${Number((at / size).toPrecision(6))} ${unit}`);
  return {
    series: [
      {},
      stacks === 0
        ? { ...line, stroke: colour("computation"), width: 1.5, fill: `${colour("computation")}26` }
        : { ...line, stroke: colour("idle"), width: 1, fill: colour("idle") },
      {
        ...line,
        stroke: colour(stacks === 0 ? "communication" : "text"),
        width: 1.5,
        dash: [5, 3],
        show: reserves,
      },
      ...STACKS.slice(0, stacks)
        .reverse()
        .map((name) => ({ ...line, stroke: colour(name), width: 1, fill: colour(name) })),
    ],
    axes: [
      { size: BELOW, values: (_, splits) => splits.map(value), grid: { show: false } },
      {
        size: LEFT,
        values: (_, splits) =>
          splits.map((at) => (at === 0 ? "0" : bytes(at).replace(/\.(\d*?)0+ /, withPoint))),
      },
    ],
    // The line of nothing is seen too: else a small change at the top would look like all of it.
    y: (_, low, high) => uPlot.rangeNum(Math.min(low, 0), Math.max(high, 1), 0.05, true),
    behind: (plot) => drawSteps(plot, steps, colour("quiet")),
  };
}

/** A size's digits after the point, without zeros at their end. */
function withPoint(_: string, digits: string): string {
  return digits === "" ? " " : `.${digits} `;
}

/** Upright lines where steps begin. */
function drawSteps(plot: uPlot, steps: number[], stroke: string) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.strokeStyle = stroke;
  ctx.setLineDash([2, 4]);
  ctx.beginPath();
  for (const step of steps) {
    const x = plot.valToPos(step, "x", true);
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
  }
  ctx.stroke();
  ctx.restore();
}

/** What the areas are, with the bytes at the picked place, or at the peak. */
function Stacks({ chart, picked }: { chart: MemoryChart; picked: number | null }) {
  return (
    <ol class="stacks">
      {chart.stacks.map((stack, at) => (
        <li key={stack.name}>
          <i class={`fill-stack-${at}`} />
          <b>{bytes(picked === null ? stack.peak_bytes : stack.bytes[picked])}</b>
          <span>{stack.name}</span>
        </li>
      ))}
      {chart.stacks.length === STACKS.length && (
        <li>
          <i class="fill-idle" />
          <b>rest</b>
          <span>other stacks</span>
        </li>
      )}
      <li class="whole">Sizes are those at {picked === null ? "the peak" : "the picked time"}.</li>
    </ol>
  );
}

interface ChartProps {
  data: Data;
  rank: ReportRank;
  chart: MemoryChart;
  theme: string;
}

function Chart({ data, rank, chart, theme }: ChartProps) {
  const [picked, pick] = useState<number | null>(null);
  const curve = useMemo(() => curveOf(rank, chart), [rank, chart]);
  const of = rank.memory.find(
    (of) => of.device_type === chart.device_type && of.device === chart.device,
  );
  const reserves = chart.reserved_bytes.some((bytes) => bytes > 0);
  const all = rank.steps ?? [];
  const steps = all.length <= STEPS ? all.map((step) => step.start_ns - curve.from) : [];
  const name = chart.device < 0 ? chart.device_type : `${chart.device_type} ${chart.device}`;
  const { follow } = useNavigation();
  const peak = of
    ? `at most ${bytes(of.peak_bytes)} allocated, ${time(of.peak_ns - curve.from)} after the start`
    : "";
  const about = [
    peak,
    of && reserves ? `at most ${bytes(of.peak_reserved_bytes)} reserved` : "",
    of ? `${bytes(of.end_bytes)} at the end` : "",
  ]
    .filter(Boolean)
    .join("; ");
  const [times, allocated, reserved] = curve.data;
  const cut =
    curve.points < chart.points && chart.stacks.length === 0
      ? ` The line has ${count(curve.points)} of ${count(chart.points)} points, with the lowest and highest of each interval. All: \`etlink analyze --csv --table memory_timeline\`.`
      : "";
  return (
    <div class="chart memory" data-device={name}>
      <h3>
        {name} <small>{about}</small>
      </h3>
      {of && data.timelines.length > 0 && (
        <p class="tools">
          <button
            type="button"
            onClick={() =>
              follow({ kind: "time", rank: rank.label, begin: of.peak_ns, end: of.peak_ns })
            }
          >
            Show the peak in the timeline
          </button>
        </p>
      )}
      <Plot
        label={`Memory of ${name} over time: ${about}`}
        data={curve.data}
        height={HEIGHT}
        whole={[0, curve.to - curve.from]}
        drawing={(colour) => drawCurve(colour, curve, reserves, steps)}
        theme={theme}
        places={curve.points}
        lasting
        pick={pick}
        picked={picked}
      >
        <div class="legend">
          {chart.stacks.length === 0 && (
            <span>
              <i class="fill-allocated" /> allocated
            </span>
          )}
          {reserves && (
            <span>
              <i class={chart.stacks.length > 0 ? "line" : "fill-reserved"} /> reserved
            </span>
          )}
          {steps.length > 0 && <span>upright lines: where steps begin</span>}
        </div>
      </Plot>
      {chart.stacks.length > 0 && <Stacks chart={chart} picked={picked} />}
      <p
        class="note tip"
        role="status"
        data-allocated={picked === null ? undefined : allocated[picked]}
        data-reserved={picked === null ? undefined : reserved[picked]}
        data-time={picked === null ? undefined : times[picked] + curve.from}
      >
        {picked !== null
          ? `${time(times[picked])} after the start: ${bytes(allocated[picked])} allocated${reserves ? `, ${bytes(reserved[picked])} reserved` : ""}.`
          : `${count(chart.points)} allocations and frees. Point at the chart, or use the arrow keys; drag to zoom in.`}
        {picked === null && marked(cut)}
      </p>
    </div>
  );
}
