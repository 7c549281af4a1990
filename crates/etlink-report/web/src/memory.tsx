// Memory over time: what tensors held and what the allocator had taken, per device of a rank.

import { useRef, useState } from "preact/hooks";
import { marked, nice, Say, useWidth } from "./charts";
import type { Data, MemoryChart, ReportRank } from "./data";
import { bytes, count, time, timeUnit } from "./format";
import { useNavigation } from "./navigation";
import { RankChoice } from "./sections";

const HEIGHT = 170;
const LEFT = 72;
const BOTTOM = 22;
const TOP = 8;
/** With so many steps at most each is marked. */
const STEPS = 60;

export function MemorySection({ data }: { data: Data }) {
  const first = data.ranks.findIndex((rank) => rank.memory_charts.length > 0);
  const [at, setAt] = useState(first);
  const rank = data.ranks[at];
  return (
    <>
      <Say>
        <em>Allocated</em> is what tensors hold, <em>reserved</em> what the allocator took from the
        device. The CPU’s allocator counts neither: there it is the sum since the recording began,
        which can be negative.
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
        <Chart key={`${at} ${chart.device_type} ${chart.device}`} rank={rank} chart={chart} />
      ))}
    </>
  );
}

interface Point {
  time: number;
  allocated: number;
  reserved: number;
}

function points(chart: MemoryChart): Point[] {
  let at = 0;
  return chart.time_ns.map((step, place) => ({
    time: (at += step),
    allocated: chart.allocated_bytes[place],
    reserved: chart.reserved_bytes[place],
  }));
}

/** A line that stays at a value until the next. */
function line(
  all: Point[],
  x: (ns: number) => number,
  y: (bytes: number) => number,
  value: (point: Point) => number,
  end: number,
): string {
  const parts = all.map(
    (point, at) =>
      `${at === 0 ? "M" : "H"}${x(point.time).toFixed(1)}${at === 0 ? "," : "V"}${y(value(point)).toFixed(1)}`,
  );
  return `${parts.join("")}H${end.toFixed(1)}`;
}

function Chart({ rank, chart }: { rank: ReportRank; chart: MemoryChart }) {
  const [place, width] = useWidth();
  const box = useRef<SVGSVGElement>(null);
  const [picked, pick] = useState(-1);
  const all = points(chart);
  const of = rank.memory.find(
    (of) => of.device_type === chart.device_type && of.device === chart.device,
  );
  const reserves = all.some((point) => point.reserved > 0);
  const values = all.flatMap((point) =>
    reserves ? [point.allocated, point.reserved] : [point.allocated],
  );
  const [low, high] = [
    values.reduce((a, b) => Math.min(a, b), 0),
    values.reduce((a, b) => Math.max(a, b), 1),
  ];
  const tick = nice((high - low) / 4);
  const [bottom, top] = [Math.floor(low / tick) * tick, Math.ceil(high / tick) * tick];
  const ticks = Array.from(
    { length: Math.round((top - bottom) / tick) + 1 },
    (_, at) => bottom + at * tick,
  );
  const from = Math.min(rank.link?.window.start_ns ?? all[0].time, all[0].time);
  const to = Math.max(
    rank.link?.window.end_ns ?? all[all.length - 1].time,
    all[all.length - 1].time,
    from + 1,
  );
  const x = (ns: number) => LEFT + ((ns - from) / (to - from)) * (width - LEFT);
  const y = (bytes: number) =>
    TOP + (HEIGHT - BOTTOM - TOP) * (1 - (bytes - bottom) / (top - bottom));
  const steps = (rank.steps ?? []).length <= STEPS ? (rank.steps ?? []) : [];
  const apart = nice(((to - from) * 90) / (width - LEFT));
  const times = Array.from(
    { length: Math.floor((to - from) / apart) + 1 },
    (_, at) => at * apart,
  ).filter((at) => at === 0 || x(from + at) < width - 24);
  const [unit, size] = timeUnit(to - from);
  const name = chart.device < 0 ? chart.device_type : `${chart.device_type} ${chart.device}`;
  const { follow } = useNavigation();
  const peak = of
    ? `at most ${bytes(of.peak_bytes)} allocated, ${time(of.peak_ns - from)} after the start`
    : "";
  const about = [
    peak,
    of && reserves ? `at most ${bytes(of.peak_reserved_bytes)} reserved` : "",
    of ? `${bytes(of.end_bytes)} at the end` : "",
  ]
    .filter(Boolean)
    .join("; ");
  const point = (event: PointerEvent) => {
    const at =
      from +
      ((event.clientX - (box.current?.getBoundingClientRect().left ?? 0) - LEFT) / (width - LEFT)) *
        (to - from);
    pick(all.findLastIndex((point) => point.time <= at));
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) {
      pick(Math.min(Math.max(picked + by, 0), all.length - 1));
      event.preventDefault();
    }
  };
  const now = all[picked];
  const cut =
    all.length < chart.points
      ? ` The line has ${count(all.length)} of ${count(chart.points)} points, with the lowest and highest of each stretch. All: \`etlink analyze --csv --table memory_timeline\`.`
      : "";
  return (
    <div ref={place} class="chart memory" data-device={name}>
      <h3>
        {name} <small>{about}</small>
      </h3>
      {of && (
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
      <div
        tabIndex={0}
        role="application"
        aria-label={`Memory of ${name} over time: ${about}. Left and right arrows go from point to point`}
        onKeyDown={keys}
      >
        <svg
          ref={box}
          width={width}
          height={HEIGHT}
          aria-hidden="true"
          onPointerMove={point}
          onPointerLeave={() => pick(-1)}
        >
          {ticks.map((at) => (
            <g key={at}>
              <line x1={LEFT} x2={width} y1={y(at)} y2={y(at)} class="grid" />
              <text
                x={LEFT - 8}
                y={y(at)}
                class="tick"
                text-anchor="end"
                dominant-baseline="middle"
              >
                {at === 0 ? "0" : bytes(at).replace(/\.0+ /, " ")}
              </text>
            </g>
          ))}
          {steps.map((step) => (
            <line
              key={step.name}
              x1={x(step.start_ns)}
              x2={x(step.start_ns)}
              y1={TOP}
              y2={HEIGHT - BOTTOM}
              class="step-start"
            >
              <title>{step.name}</title>
            </line>
          ))}
          {times.map((at) => (
            <text key={at} x={x(from + at)} y={HEIGHT - 4} class="tick" text-anchor="middle">
              {at === 0 ? "0" : `${Number((at / size).toPrecision(6))} ${unit}`}
            </text>
          ))}
          <path
            class="allocated area"
            d={`${line(all, x, y, (point) => point.allocated, x(to))}V${y(Math.max(bottom, 0))}H${x(all[0].time)}Z`}
          />
          <path class="allocated" d={line(all, x, y, (point) => point.allocated, x(to))} />
          {reserves && (
            <path class="reserved" d={line(all, x, y, (point) => point.reserved, x(to))} />
          )}
          {now && (
            <line x1={x(now.time)} x2={x(now.time)} y1={TOP} y2={HEIGHT - BOTTOM} class="picked" />
          )}
        </svg>
      </div>
      <div class="legend">
        <span>
          <i class="fill-allocated" /> allocated
        </span>
        {reserves && (
          <span>
            <i class="fill-reserved" /> reserved
          </span>
        )}
        {steps.length > 0 && <span>upright lines: where steps begin</span>}
      </div>
      <p
        class="note tip"
        role="status"
        data-allocated={now?.allocated}
        data-reserved={now?.reserved}
        data-time={now?.time}
      >
        {now
          ? `${time(now.time - from)} after the start: ${bytes(now.allocated)} allocated${reserves ? `, ${bytes(now.reserved)} reserved` : ""}.`
          : `${count(chart.points)} allocations and frees. Point at the chart, or use the arrow keys.`}
        {!now && marked(cut)}
      </p>
    </div>
  );
}
