// The sections with charts.

import { useState } from "preact/hooks";
import { Note, Say, Stacked, type Bar } from "./charts";
import type {
  CollectiveSkew,
  Data,
  DeviceTime,
  IdleCauses,
  RankStats,
  ReportRank,
  Record_,
  Value,
} from "./data";
import { count, percent } from "./format";
import { Heat } from "./heat";
import { useNavigation } from "./navigation";
import { Pairs } from "./pairs";
import { Steps, stepRows } from "./steps";
import { columnsOf, Name, Table, type Column } from "./table";

const STEP_FIRST = ["name", "rank", "duration_ns", "idle_ns", "computation_ns", "phase", "rows"];

export function StepsSection({ data, theme }: { data: Data; theme: string }) {
  const { current, follow } = useNavigation();
  const drawn = data.timelines[current.timeline]?.step ?? null;
  const several = data.ranks.length > 1;
  const records = data.ranks.flatMap((rank) =>
    (rank.steps ?? []).map((step) => ({ rank: rank.label, ...step })),
  );
  const isSaid = (field: string) =>
    records.some((record: Record_) => record[field] !== 0 && record[field] !== null);
  const fields = columnsOf(records, STEP_FIRST)
    .map(({ field }) => field)
    .filter((field) => (several || field !== "rank") && isSaid(field));
  const rows = stepRows(data.ranks);
  const show = (rank: string, name: string) => {
    const step = data.ranks
      .find((of) => of.label === rank)
      ?.steps.find((step) => step.name === name);
    if (step) {
      const [begin, end] = [step.start_ns, step.start_ns + step.duration_ns];
      follow({ kind: "time", rank, begin, end, name });
    }
  };
  const cut = cutNote(data, "steps");
  return (
    <>
      {records.length > 1 && <Steps data={data} drawn={drawn} choose={show} theme={theme} />}
      {rows.length === 1 && <Say>The recording has one step, {rows[0].name}.</Say>}
      {cut && <Note text={cut} kind="cut" />}
      <details>
        <summary>Table of the steps</summary>
        <Table
          id="steps-table"
          caption="Steps"
          records={records}
          note={cut}
          columns={fields.map((field) => ({
            field,
            head: field === "rows" ? "device rows" : undefined,
            follow:
              field === "name"
                ? (record: Record_) => show(String(record.rank), String(record.name))
                : undefined,
          }))}
        />
      </details>
    </>
  );
}

export const PARTS: [string, keyof DeviceTime][] = [
  ["computation", "computation_ns"],
  ["exposed communication", "exposed_communication_ns"],
  ["exposed copies", "exposed_memory_ns"],
  ["work of no step", "outside_ns"],
  ["exposed other", "exposed_other_ns"],
  ["idle", "idle_ns"],
];

function deviceName(rank: ReportRank, of: { device: number | null }, several: boolean): string {
  return `${several ? `rank ${rank.label}` : ""}${rank.breakdown.length > 1 || !several ? ` device ${of.device}` : ""}`.trim();
}

export function devices(rank: ReportRank, several: boolean): { label: string; time: DeviceTime }[] {
  return rank.breakdown.map((time) => ({ label: deviceName(rank, time, several), time }));
}

export const IDLE: [string, keyof IdleCauses][] = [
  ["host late", "host_late_ns"],
  ["event wait", "event_wait_ns"],
  ["in launch calls", "launch_call_ns"],
  ["launch latency", "launch_ns"],
  ["between kernels", "between_ns"],
  ["no known cause", "unexplained_ns"],
];

export function BreakdownSection({ data }: { data: Data }) {
  const several = data.ranks.length > 1;
  const all = data.ranks.flatMap((rank) => devices(rank, several));
  const bars: Bar[] = all.map(({ label, time }) => ({
    label,
    parts: PARTS.map(([name, field]) => ({ name, ns: time[field] as number })),
  }));
  const overlap: Bar[] = all
    .filter(({ time }) => time.communication_ns > 0)
    .map(({ label, time: of }) => ({
      label,
      parts: [
        { name: "overlap", ns: of.overlap_ns },
        { name: "exposed", ns: of.communication_ns - of.overlap_ns },
      ],
    }));
  const idle: Bar[] = data.ranks
    .flatMap((rank) =>
      rank.idle.map((of) => ({
        label: deviceName(rank, of, several),
        of,
      })),
    )
    .map(({ label, of }) => ({
      label,
      parts: IDLE.map(([name, field]) => ({ name, ns: of[field] as number })),
    }))
    .filter(({ parts }) => parts.some((part) => part.ns > 0));
  const records = data.ranks.flatMap((rank) =>
    rank.breakdown.map((time) => ({ rank: rank.label, ...time })),
  );
  const columns = [
    "rank",
    "device",
    "window_ns",
    ...PARTS.map(([, field]) => String(field)),
    "communication_ns",
    "memory_ns",
    "overlap_ns",
    "overlap_share",
  ];
  return (
    <>
      <Say>
        Each moment of a device’s window counts once, for the first of these that applies:
        computation, communication, copies, work of no step, other, idle. Work of no step was
        launched before the recording or before the first step.
      </Say>
      <Stacked
        bars={bars}
        names={PARTS.map(([name]) => name)}
        label="Device time by class"
        whole="window"
      />
      {overlap.length > 0 && (
        <>
          <h3>Overlap of communication with computation</h3>
          <Stacked
            bars={overlap}
            names={["overlap", "exposed"]}
            label="Communication that overlaps with computation, and exposed"
            whole="communication"
          />
        </>
      )}
      {idle.length > 0 && (
        <>
          <h3>Why devices are idle</h3>
          <Say>
            <em>Host late</em>: the call that launches the next row had not begun.{" "}
            <em>Launch call</em>: that call blocked for over 100 µs, because it loads a module,
            waits, or the queue is full. <em>Event wait</em>: another stream had not reached the
            event. <em>Launch</em>: from a late call to the start of its row. <em>Between rows</em>:
            nothing held up the next row, but the device took time to start it.
          </Say>
          <Stacked
            bars={idle}
            names={IDLE.map(([name]) => name)}
            label="Idle time by cause"
            whole="idle"
          />
        </>
      )}
      <details>
        <summary>Table of device time</summary>
        <Table
          id="breakdown-table"
          caption="Device time by class"
          records={records}
          columns={columns
            .filter((field) => several || field !== "rank")
            .map((field) => ({ field }))}
          filter={false}
          note={cutNote(data, "breakdown")}
        />
      </details>
    </>
  );
}

const CAUSES = [
  "host",
  "gap",
  "launch",
  "kernel",
  "communication",
  "memory_copy",
  "wait",
  "boundary",
  "unexplained",
];

export const PATH_CAUSES = CAUSES.map((name) => name.replace("_", " "));

/** The critical path of each rank by cause. */
export function pathBars(data: Data): Bar[] {
  const cause = (rank: ReportRank, name: string) => rank.critical_path?.causes[name]?.ns ?? 0;
  return data.ranks
    .filter((rank) => rank.critical_path)
    .map((rank) => ({
      label: data.ranks.length > 1 ? `rank ${rank.label}` : "critical path",
      parts: CAUSES.map((name) => ({ name: name.replace("_", " "), ns: cause(rank, name) })),
    }));
}

export function PathSection({ data }: { data: Data }) {
  return (
    <>
      <Say>
        The chain of work and waits that determines the length of the recording, traced back from
        its last end. Work off the path can take longer without delaying the run, up to its slack.{" "}
        <em>gap</em> is host time in which no op runs; <em>boundary</em> is time before the
        recording.
      </Say>
      <Stacked
        bars={pathBars(data)}
        names={PATH_CAUSES}
        label="Critical path by cause"
        whole="length"
      />
      <PathTable data={data} />
    </>
  );
}

/** The steps of the path that take longest. */
function PathTable({ data }: { data: Data }) {
  const { follow } = useNavigation();
  const several = data.ranks.length > 1;
  const records = data.ranks.flatMap((rank) =>
    (rank.critical_path?.steps ?? []).map((step) => ({
      rank: rank.label,
      name: step.name,
      duration_ns: step.duration_ns,
      latency_ns: step.latency_ns,
      place: step.place,
      start_ns: step.start_ns,
    })),
  );
  if (records.length === 0) {
    return null;
  }
  const show = (record: Record_) => {
    const [begin, length] = [Number(record.start_ns), Number(record.duration_ns)];
    const [rank, name] = [String(record.rank), String(record.name)];
    follow({ kind: "time", rank, begin, end: begin + length, name });
  };
  const columns: Column[] = [
    {
      field: "name",
      cell: (value) => <Name text={String(value)} />,
      follow: show,
    },
    { field: "duration_ns" },
    { field: "latency_ns", head: "waited before" },
    { field: "place", head: "on" },
  ];
  return (
    <details>
      <summary>Longest steps of the path</summary>
      <Table
        id="path-table"
        caption="Longest steps of the critical path"
        records={records}
        columns={several ? [columns[0], { field: "rank" }, ...columns.slice(1)] : columns}
        sort="duration_ns"
        rows={10}
        note="All: `etlink replay --critical-path --json`."
      />
    </details>
  );
}

const CLASSES = ["all", "computation", "communication", "memory", "other"];

export function KernelsSection({ data }: { data: Data }) {
  const [of, setOf] = useState("all");
  const [rank, setRank] = useState(-1);
  const { follow } = useNavigation();
  const kernels = rank < 0 ? data.total.kernels : data.ranks[rank].kernels;
  const records = of === "all" ? kernels : kernels.filter((kernel) => kernel.class === of);
  const present = CLASSES.filter(
    (name) => name === "all" || kernels.some((kernel) => kernel.class === name),
  );
  const share = (value: Value) => (
    <span class="share">
      <i style={{ width: `${Math.max(Number(value) * 60, 1)}px` }} />
      {percent(Number(value), 2).replace(" %", "")}
    </span>
  );
  const columns: Column[] = [
    {
      field: "name",
      cell: (value, record) => <Name text={String(record.short_name)} full={String(value)} />,
      follow: (record) =>
        follow({
          kind: "kernel",
          rank: rank < 0 ? null : data.ranks[rank].label,
          name: String(record.name),
          longest: Number(record.max_ns),
        }),
    },
    { field: "sum_ns" },
    { field: "share", cell: share },
    { field: "count" },
    { field: "mean_ns" },
    { field: "class", cell: (value) => <span class={`chip chip-${value}`}>{String(value)}</span> },
    { field: "label" },
    { field: "min_ns" },
    { field: "max_ns" },
    { field: "stddev_ns", head: "std. dev." },
  ];
  const tools = (
    <>
      <div class="choice" role="group" aria-label="Class of kernels">
        {present.map((name) => (
          <button key={name} type="button" aria-pressed={name === of} onClick={() => setOf(name)}>
            {name}
          </button>
        ))}
      </div>
      {data.ranks.length > 1 && <RankChoice data={data} rank={rank} choose={setRank} />}
    </>
  );
  return (
    <Table
      id="kernels-table"
      caption="Kernels, copies and memsets"
      records={records}
      columns={columns}
      sort="sum_ns"
      rows={10}
      tools={tools}
      note={cutNote(data, "kernels", rank < 0 ? "" : data.ranks[rank].label, " that take most")}
    />
  );
}

/** What a cut table leaves out, and what has it all; of one rank, of all together (""), or of the ranks one after the other. */
export function cutNote(data: Data, table: string, rank?: string, which = ""): string | undefined {
  const cuts = data.cut.filter(
    (cut) => cut.table === table && (rank === undefined ? cut.rank !== "" : cut.rank === rank),
  );
  if (cuts.length === 0) {
    return undefined;
  }
  const whole =
    rank === undefined
      ? data.ranks
          .filter((of) => cuts.every((cut) => cut.rank !== of.label))
          .map((of: { [table: string]: unknown }) => (of[table] as unknown[]).length)
      : [];
  const rest = whole.reduce((sum, length) => sum + length, 0);
  const [shown, all] = [
    cuts.reduce((sum, cut) => sum + cut.records, rest),
    cuts.reduce((sum, cut) => sum + cut.of, rest),
  ];
  const first =
    rank === undefined && data.ranks.length > 1
      ? `, the first ${count(Math.max(...cuts.map((cut) => cut.records)))} per rank`
      : "";
  return `These are the ${first || which ? "" : "first "}${count(shown)} of ${count(all)}${which}${first}. All: \`etlink analyze --csv --table ${table}\`.`;
}

export function RankChoice({
  data,
  rank,
  choose,
  all = true,
}: {
  data: Data;
  rank: number;
  choose: (rank: number) => void;
  all?: boolean;
}) {
  return (
    <label>
      <span class="hidden">Rank</span>
      <select value={rank} onChange={(event) => choose(Number(event.currentTarget.value))}>
        {all && <option value={-1}>all ranks</option>}
        {data.ranks.map((of, at) => (
          <option key={at} value={at}>
            rank {of.label}
          </option>
        ))}
      </select>
    </label>
  );
}

export function CollectivesSection({
  data,
  met,
  theme,
}: {
  data: Data;
  met: RankStats;
  theme: string;
}) {
  const { follow } = useNavigation();
  const timed = met.skews.some((skew) => skew.transfer_ns !== null);
  const steps = met.skews.some((skew) => skew.step);
  const skewColumns: Column[] = [
    "kind",
    "skew_ns",
    "last",
    "waited_ns",
    "ranks",
    "number",
    ...(steps ? ["step"] : []),
    "bytes",
    ...(timed ? ["transfer_ns", "algorithm_bandwidth", "bus_bandwidth"] : []),
  ].map((field) => ({
    field,
    head: { last: "last rank", waited_ns: "all waited" }[field],
    follow:
      field === "kind"
        ? (record: Record_) => {
            const collective = met.skews.find((skew) => isRecordOf(skew, record));
            if (collective) {
              follow({ kind: "collective", collective });
            }
          }
        : undefined,
  }));
  return (
    <>
      <Say>
        How much later than the first rank each rank arrived at a collective or message. Delay
        counts from the previous meeting of the ranks. Delay from a later start of a step or
        recording, and delay passed on from other ranks, are listed separately. Bandwidths are
        defined as in nccl-tests, from the last arrival.
      </Say>
      {met.late.first.length > 0 && <Heat met={met} data={data} theme={theme} />}
      <h3>Stragglers</h3>
      <Table
        id="late-table"
        caption="Stragglers: arrival delays of each rank"
        records={met.ranks}
        sort="caused_ns"
        columns={columnsOf(met.ranks, STRAGGLER_FIRST).map((column) => ({
          ...column,
          head: HEADS[column.field],
        }))}
        filter={false}
        rows={16}
      />
      <Pairs pairs={met.pairs} />
      <h3>Matched collectives and messages</h3>
      <Table
        id="skew-table"
        caption="Matched collectives and messages"
        // `waited_for` is a list, which has no column here
        records={met.skews as Omit<(typeof met.skews)[number], "waited_for">[]}
        columns={skewColumns}
        sort="skew_ns"
        rows={10}
        note={
          met.skews.length < met.count
            ? `${count(met.skews.length)} of ${count(met.count)}, including those with the largest skew. All: \`etlink ranks --json\`.`
            : undefined
        }
      />
    </>
  );
}

function isRecordOf(skew: CollectiveSkew, record: Record_): boolean {
  const fields = ["kind", "ranks", "group", "number", "start_ns"] as const;
  return fields.every((field) => skew[field] === record[field]);
}

const STRAGGLER_FIRST = ["rank", "caused_ns", "began_late_ns", "handed_on_ns", "waited_ns"];

const HEADS: { [field: string]: string } = {
  collectives: "takes part",
  last: "comes last",
  caused_ns: "others waited for its work, sum",
  began_late_ns: "others waited for its late start, sum",
  start_skew_ns: "of it, late recording, sum",
  handed_on_ns: "passed on from others, sum",
  waited_ns: "waited for others",
};
