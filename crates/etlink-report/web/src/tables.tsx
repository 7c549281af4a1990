// The sections that are tables: everything else that was found, the link report, fidelity.

import { useState } from "preact/hooks";
import { Say } from "./charts";
import type { Data, ReportRank, Record_ } from "./data";
import { diagnosticText } from "./format";
import { useNavigation } from "./navigation";
import { cutNote, RankChoice } from "./sections";
import { columnsOf, Table, type Column } from "./table";

/** Tables that have a section of their own. */
const SHOWN = [
  "breakdown",
  "kernels",
  "steps",
  "link",
  "figures",
  "critical_path",
  "memory_charts",
];

/** Titles of tables that have another one than their name in JSON. */
const TITLES: { [table: string]: string } = {
  coverage: "SM coverage",
  queues: "queue depth",
  work: "roofline",
};

/** Heads of columns of these tables. */
const HEADS: { [field: string]: string } = {
  mean_length: "mean depth",
  max_length: "max depth",
  full_ns: "queue full",
  multiprocessors: "SMs",
};

/** Columns that say most, by table. */
const FIRST: { [table: string]: string[] } = {
  utilization: ["device", "busy_share", "busy_ns", "window_ns", "idle_ns", "computation_ns"],
  idle: ["device", "idle_ns", "host_late_ns", "gaps", "longest_ns"],
  stream_idle: ["device", "stream", "idle_ns", "host_late_ns", "gaps", "longest_ns"],
  host_idle: ["host", "idle_ns", "share"],
  gaps: ["length_ns", "cause", "host", "cause_ns", "host_ns", "start_ns", "row_before"],
  launches: ["name", "calls", "rows", "call_ns", "delay_mean_ns"],
  op_launches: ["name", "calls", "rows", "call_ns", "delay_mean_ns"],
  copies: ["kind", "rows", "sum_ns", "bytes", "gb_per_s"],
  phases: ["phase", "count", "mean_ns", "median_ns", "tokens_per_s"],
  peaks: ["device", "mfu", "bandwidth_share", "roof_share", "covered"],
  collectives: ["kind", "group", "count", "sum_ns", "bus_gb_per_s", "bytes"],
  sequences: ["op", "count", "device_ns"],
  memory: ["device_type", "device", "peak_bytes", "peak_reserved_bytes", "end_bytes"],
};

function titleOf(table: string): string {
  return TITLES[table] ?? table.replaceAll("_", " ");
}

/** Tables of a rank that stand nowhere else. */
export function tablesOf(rank: ReportRank): [string, Record_[]][] {
  const is = (value: unknown): value is Record_[] =>
    Array.isArray(value) && value.length > 0 && typeof value[0] === "object";
  return Object.entries<unknown>(rank).filter(
    (entry): entry is [string, Record_[]] => !SHOWN.includes(entry[0]) && is(entry[1]),
  );
}

export function TablesSection({ data }: { data: Data }) {
  const [rank, setRank] = useState(0);
  const { follow } = useNavigation();
  const tables = tablesOf(data.ranks[rank]);
  const [wanted, choose] = useState("");
  const [name, records] = tables.find(([name]) => name === wanted) ?? tables[0] ?? ["", []];
  return (
    <>
      <div class="tools">
        <div class="choice" role="group" aria-label="Table">
          {tables.map(([of]) => (
            <button key={of} type="button" aria-pressed={of === name} onClick={() => choose(of)}>
              {titleOf(of)}
            </button>
          ))}
        </div>
        {data.ranks.length > 1 && (
          <RankChoice data={data} rank={rank} choose={setRank} all={false} />
        )}
      </div>
      <Table
        key={name}
        id="more-table"
        caption={titleOf(name)}
        records={records}
        columns={columnsOf(records, FIRST[name]).map(({ field }) => ({
          field,
          head: HEADS[field],
          follow:
            name === "gaps" && field === "length_ns"
              ? (record: Record_) => {
                  const begin = Number(record.start_ns);
                  const end = begin + Number(record.length_ns);
                  follow({ kind: "time", rank: data.ranks[rank].label, begin, end });
                }
              : undefined,
        }))}
        note={cutNote(data, name, data.ranks[rank].label)}
      />
    </>
  );
}

function sum(counts: { [name: string]: number }): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

/** Which rank a record is of matters only where there are several. */
function several(data: Data, columns: Column[]): Column[] {
  return data.ranks.length > 1 ? columns : columns.filter(({ field }) => field !== "rank");
}

/** Ranks that are named before a note. */
const NAMED = 8;

/** Notes of ranks, each once, with the ranks that it is about; without those that stand above. */
function notesOf(data: Data, notes: [label: string, note: string][]): string[] {
  const ranks = new Map<string, string[]>();
  for (const [label, note] of notes) {
    if (!data.diagnostics.some((said) => diagnosticText(said).includes(note))) {
      ranks.set(note, [...(ranks.get(note) ?? []), label]);
    }
  }
  return [...ranks].map(([note, labels]) => {
    if (data.ranks.length === 1) {
      return note;
    }
    if (labels.length === data.ranks.length) {
      return `All ranks: ${note}`;
    }
    const more = labels.length > NAMED ? `, … (${labels.length} in total)` : "";
    return `Rank${labels.length > 1 ? "s" : ""} ${labels.slice(0, NAMED).join(", ")}${more}: ${note}`;
  });
}

const LINK_HEADS: { [field: string]: string } = {
  cpu_ops: "CPU ops",
  matched: "matched",
  launched: "launched",
  owned_by_op: "owned by an op",
};

export function LinkSection({ data }: { data: Data }) {
  const linked = data.ranks.flatMap((rank) => (rank.link ? [{ ...rank, link: rank.link }] : []));
  const records = linked.map((rank) => {
    const { link } = rank;
    return {
      rank: rank.label,
      cpu_ops: link.cpu_ops,
      matched: rank.host_trace ? sum(link.matched) : null,
      device_rows: link.device_rows,
      launched: link.launched,
      owned_by_op: link.owned_by_op,
      nodes: sum(link.nodes),
      edges: sum(link.edges),
      anomalies: link.anomalies.reduce((sum, anomaly) => sum + anomaly.count, 0),
      window_ns: link.window.end_ns - link.window.start_ns,
      host_trace: rank.host_trace ?? "–",
      device_trace: rank.device_trace,
    };
  });
  const columns: Column[] = Object.keys(records[0] ?? {}).map((field) => ({
    field,
    head: LINK_HEADS[field],
  }));
  const kinds = (of: "nodes" | "edges") => {
    const names = [...new Set(linked.flatMap((rank) => Object.keys(rank.link[of])))];
    const rows = linked.map((rank) => ({
      rank: rank.label,
      ...Object.fromEntries(names.map((name) => [name, rank.link[of][name] ?? 0])),
    }));
    return (
      <Table
        id={`${of}-table`}
        caption={`${of} of the graph by kind`}
        records={rows}
        columns={several(
          data,
          ["rank", ...names].map((field) => ({ field })),
        )}
        filter={false}
      />
    );
  };
  const anomalies = linked.flatMap((rank) =>
    rank.link.anomalies.map(({ kind, severity, count, meaning }) => ({
      rank: rank.label,
      severity,
      count,
      meaning,
      kind,
    })),
  );
  const notes = notesOf(
    data,
    linked.flatMap(({ label, link }) =>
      link.diagnostics.map((told): [string, string] => [label, diagnosticText(told)]),
    ),
  );
  const unlaunched = linked.flatMap((rank) =>
    Object.entries(rank.link.no_launch).map(([reason, count]) => ({
      rank: rank.label,
      why: reason.replaceAll("_", " "),
      device_rows: count,
    })),
  );
  return (
    <>
      <Table
        id="link-table"
        caption="How each rank’s traces were linked"
        records={records}
        columns={several(data, columns)}
        filter={false}
      />
      {notes.length > 0 && (
        <ul class="notes">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      {unlaunched.length > 0 && (
        <>
          <h3>Device rows without a launch call</h3>
          <Table
            id="no-launch-table"
            caption="Device rows without a launch call"
            records={unlaunched}
            columns={several(data, columnsOf(unlaunched))}
            filter={false}
          />
        </>
      )}
      <h3>{anomalies.length > 0 ? "Anomalies in the files" : "No anomalies in the files."}</h3>
      {anomalies.length > 0 && (
        <Table
          id="anomalies-table"
          caption="Anomalies"
          records={anomalies}
          columns={several(
            data,
            ["rank", "severity", "count", "meaning"].map((field) => ({ field })),
          )}
          filter={false}
        />
      )}
      <details>
        <summary>Nodes and edges of the graph by kind</summary>
        {kinds("nodes")}
        {kinds("edges")}
      </details>
    </>
  );
}

export function FidelitySection({ data }: { data: Data }) {
  const known = data.ranks.flatMap(({ label, figures }) => (figures ? [{ label, figures }] : []));
  const records = known.map(({ label, figures }) => ({
    rank: label,
    replay_error: figures.replay_error,
    measured_ns: figures.measured_ns,
    corrected_ns: figures.corrected_ns ?? null,
    replayed_ns: figures.replayed_ns,
    end_error_p99_ns: figures.end_error?.p99_ns ?? null,
    unexplained_rows: figures.unexplained.device_ops,
    unexplained_ns: figures.unexplained.waiting_ns,
    contradictions: figures.contradictions?.edges ?? null,
    before_the_recording_ns: figures.boundary.total_ns,
  })) as Record_[];
  const heads: { [field: string]: string } = {
    measured_ns: "measured",
    corrected_ns: "without the overhead of recording",
    replayed_ns: "replayed",
    end_error_p99_ns: "end error, 99th percentile",
    unexplained_rows: "rows with unexplained waits",
    unexplained_ns: "unexplained waits",
    contradictions: "edges contradicted by times",
  };
  return (
    <>
      <Say>
        The graph was replayed with only its edges, durations and latencies. An accurate graph
        reproduces the measured times, with an error of 0.
      </Say>
      <Table
        id="fidelity-table"
        caption="Replay against the recording"
        records={records}
        columns={several(data, columnsOf(records)).map((column) => ({
          ...column,
          head: heads[column.field],
        }))}
        filter={false}
      />
    </>
  );
}
