// How long steps take: a column for each, with what it took on each rank.

import { useMemo, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Data, ReportRank } from "./data";
import { time, timeUnit } from "./format";
import { BELOW, Plot, type Drawing } from "./plot";
import type { Colours } from "./timeline/draw";

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
      row.ns[at] = step.length_ns;
      rows.set(step.name, row);
    }
  });
  return [...rows.values()];
}

const HEIGHT = 190;
/** Room for times, px. */
const LEFT = 64;
/** With so many marks at most each rank has its own. */
const MARKS = 20_000;
/** Ranks whose times are said at once. */
const NAMED = 16;

interface StepsProps {
  data: Data;
  drawn: string | null;
  theme: string;
  /** Goes to a rank's step. */
  choose: (rank: string, step: string) => void;
}

/** A column per step as high as on the slowest rank, with a mark for each rank. */
export function Steps({ data, drawn, theme, choose }: StepsProps) {
  const [picked, pick] = useState<number | null>(null);
  const rows = useMemo(() => stepRows(data.ranks), [data]);
  const ranks = rows.length * data.ranks.length <= MARKS ? data.ranks : [];
  const marks = ranks.length > 1 ? ranks : [];
  const values = useMemo(() => stepColumns(rows, drawn, marks.length), [rows, drawn]);
  const most = rows.reduce((most, row) => Math.max(most, slowest(row)), 1);
  return (
    <div class="chart">
      <Plot
        label={`Time per step: ${rows.length} steps, the longest ${time(most)}`}
        data={values}
        height={HEIGHT}
        whole={[-0.5, rows.length - 0.5]}
        drawing={(colour) => drawColumns(colour, rows, most, marks.length)}
        theme={theme}
        places={rows.length}
        pick={pick}
        picked={picked}
        choose={(place) => choose(data.ranks[slowestRank(rows[place])].label, rows[place].name)}
      >
        <div class="legend">
          {marks.length > 0 && <span>Bars: the slowest rank; marks: each rank</span>}
          {drawn && rows.length > 1 && (
            <span>
              <i class="fill-drawn" /> the step of the timeline
            </span>
          )}
        </div>
      </Plot>
      <StepTimes
        row={picked === null ? undefined : rows[picked]}
        ranks={data.ranks}
        choose={choose}
      />
    </div>
  );
}

interface StepTimesProps {
  row: StepRow | undefined;
  ranks: ReportRank[];
  choose: (rank: string, step: string) => void;
}

/** A step's time on each rank, which lead there. */
function StepTimes({ row, ranks, choose }: StepTimesProps) {
  if (!row) {
    return (
      <p class="note tip" role="status">
        Point at a step, or use the arrow keys; drag to zoom in.
      </p>
    );
  }
  const known = row.ns.flatMap((ns, rank) =>
    ns === undefined ? [] : [{ ns, label: ranks[rank].label }],
  );
  const more = known.length - NAMED;
  return (
    <p class="note tip" role="status">
      {`${row.name}: `}
      {known.slice(0, NAMED).map(({ ns, label }, at) => (
        <span key={label} data-value={ns}>
          {at > 0 && ", "}
          <button type="button" class="link" onClick={() => choose(label, row.name)}>
            {ranks.length > 1 ? `rank ${label} ${time(ns)}` : time(ns)}
          </button>
        </span>
      ))}
      {more > 0 && `, … and ${more} more of at most ${time(slowest(row))}`}
    </p>
  );
}

function slowest(row: StepRow): number {
  return row.ns.reduce<number>((most, ns) => Math.max(most, ns ?? 0), 0);
}

/** The place of the rank that has the step longest, of equal ones the first. */
function slowestRank(row: StepRow): number {
  return row.ns.indexOf(slowest(row));
}

/** The slowest rank's times but that of the drawn step, that of the drawn step, and each rank's. */
function stepColumns(rows: StepRow[], drawn: string | null, ranks: number): uPlot.AlignedData {
  const bar = (isDrawn: boolean) =>
    rows.map((row) => ((row.name === drawn) === isDrawn ? slowest(row) : null));
  const each = Array.from({ length: ranks }, (_, rank) => rows.map((row) => row.ns[rank] ?? null));
  return [rows.map((_, at) => at), bar(false), bar(true), ...each];
}

function drawColumns(colour: Colours, rows: StepRow[], most: number, ranks: number): Drawing {
  const bars = uPlot.paths.bars?.({ size: [0.76, 64], radius: 0.05 });
  const column = { paths: bars, width: 0, points: { show: false } };
  const mark = { show: true, size: 5, width: 1, stroke: colour("text"), fill: colour("card") };
  const [unit, size] = timeUnit(most);
  return {
    series: [
      {},
      { ...column, fill: colour("idle") },
      { ...column, fill: colour("computation") },
      ...Array.from({ length: ranks }, () => ({ paths: () => null, points: mark })),
    ],
    axes: [
      {
        size: BELOW,
        grid: { show: false },
        // Between two steps there is none.
        incrs: [1, 2, 5]
          .flatMap((by) => [1, 10, 100, 1e3, 1e4, 1e5].map((size) => by * size))
          .sort((a, b) => a - b),
        space: 64,
        values: (plot, splits) => {
          const shown = (plot.scales.x.max ?? 1) - (plot.scales.x.min ?? 0);
          const apart = splits.length > 1 ? splits[1] - splits[0] : shown;
          const room = (plot.width * apart) / Math.max(shown, 1);
          return splits.map((at) => (rows[at] ? short(rows[at].name, room) : ""));
        },
      },
      {
        size: LEFT,
        values: (_, splits) => splits.map((at) => `${Number((at / size).toPrecision(6))} ${unit}`),
      },
    ],
    y: (_, __, high) => [0, Math.max(high ?? 1, 1) * 1.05],
  };
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
