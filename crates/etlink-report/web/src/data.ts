// What the page is about: the values that the crate packed, as it names them.

export type Value = string | number | boolean | null;
export type Record_ = { [field: string]: Value };

export interface DeviceTime extends Record_ {
  device: number | null;
  window_ns: number;
  computation_ns: number;
  exposed_communication_ns: number;
  exposed_memory_ns: number;
  exposed_other_ns: number;
  idle_ns: number;
  communication_ns: number;
  overlap_ns: number;
  overlap_share: number | null;
}

export interface Step extends Record_ {
  name: string;
  start_ns: number;
  duration_ns: number;
}

export interface Spread {
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  max_ns: number;
}

export interface EndError extends Spread {
  mean_ns: number;
  mean_share: number;
  p99_share: number;
  /** The nodes that are furthest off; not shown. */
  worst: unknown[];
}

export interface EdgeFigures {
  count: number;
  inferred: number;
  decided: number;
  latency: Spread | null;
}

export interface Figures {
  nodes: number;
  edges: number;
  device_ops: number;
  streams: number;
  measured_ns: number | null;
  replayed_ns: number;
  replay_error: number | null;
  end_error: EndError | null;
  unexplained: {
    device_ops: number;
    share_of_ops: number;
    waiting_ns: number;
    share_of_time: number;
    worst: unknown[];
  };
  contradictions: { edges: number; worst: unknown[] } | null;
  by_edge: { [kind: string]: EdgeFigures };
  boundary: { count: number; total_ns: number; max_ns: number };
}

export interface Anomaly {
  kind: string;
  severity: string;
  count: number;
  meaning: string;
  first?: unknown;
}

export interface LinkReport {
  notes: string[];
  rank: number | null;
  world_size: number | null;
  host_schema: string | null;
  two_runs: boolean;
  host_ops: number;
  cpu_ops: number;
  matched: { [rule: string]: number };
  unmatched: { [reason: string]: number };
  device_rows: number;
  launched: number;
  no_launch: { [reason: string]: number };
  owned_by_op: number;
  graph_launches: number;
  graph_rows: number;
  /** Of a CUDA graph; not shown. */
  capture?: unknown;
  nodes: { [kind: string]: number };
  edges: { [kind: string]: number };
  window: { start_ns: number; end_ns: number };
  anomalies: Anomaly[];
}

export interface Memory extends Record_ {
  device_type: string;
  device: number;
  start_bytes: number;
  end_bytes: number;
  peak_bytes: number;
  peak_ns: number;
  peak_reserved_bytes: number;
}

export interface MemoryChart {
  device_type: string;
  device: number;
  /** How many there are. */
  points: number;
  /** Each after the one before it. */
  time_ns: number[];
  allocated_bytes: number[];
  reserved_bytes: number[];
}

export interface Rank {
  label: string;
  device_trace: string;
  host_trace: string | null;
  device: string | null;
  breakdown: DeviceTime[];
  kernels: Record_[];
  steps: Step[];
  memory: Memory[];
  memory_charts: MemoryChart[];
  /** Of a written graph not known. */
  link: LinkReport | null;
  figures: Figures | null;
  critical_path: {
    makespan_ns: number;
    nodes: number;
    edges: { [kind: string]: number };
    busy: number;
    steps: unknown[];
    causes: { [cause: string]: { ns: number; share: number } };
  } | null;
  [table: string]: unknown;
}

export interface Skew extends Record_ {
  kind: string;
  ranks: string;
  number: number;
  bytes: number;
  start_ns: number;
  last: number;
  skew_ns: number;
}

export interface Clock extends Record_ {
  rank: number;
  /** What to add to its times. */
  offset_ns: number;
  uncertainty_ns: number | null;
  support: number;
  contradicted: boolean;
  by_machine: boolean;
}

/** A collective or message of several ranks; times by the common clock. */
export interface Joint {
  kind: string;
  ranks: string;
  number: number;
  bytes: number;
  start_ns: number;
  first: number;
  last: number;
  skew_ns: number;
  alone_ns: number;
}

export interface Met {
  clocks: Clock[];
  ranks: (Record_ & { rank: number })[];
  /** Ranks of the run have no trace here. */
  absent: boolean;
  skews: Skew[];
  count: number;
  late: { first: number[]; ns: (number | null)[][] };
}

export interface Packed {
  label: string;
  rank: number | null;
  step: string | null;
  step_ns: number | null;
  window_ns: number;
  origin_ns: number;
  /** The window's start by the clock that all ranks have in common, from the start of what is drawn of all; null: there is none. */
  common_ns: number | null;
  note: string;
  ranges: number;
  together_ns: number;
  tracks: { name: string; group: string; stream: boolean; ranges: number }[];
  strings: string[];
  depth: number[];
  start: number[];
  duration: number[];
  name: number[];
  kind: number[];
  count: number[];
  own: number[];
  about: number[];
  owner: number[];
  correlation: number[];
  deps: {
    to: number[];
    from: number[];
    kind: number[];
    at: number[];
    gap: number[];
    flags: number[];
  };
  path: {
    range: number[];
    name: number[];
    start: number[];
    duration: number[];
    delay: number[];
    cause: number[];
    delay_cause: number[];
    via: number[];
    count: number[];
  };
  met: { range: number[]; joint: number[] };
  /** Of the timeline of all ranks. */
  joints: Joint[] | null;
}

export interface Data {
  written_by: string;
  title: string;
  sentence: string;
  cards: { name: string; value: string; note: string }[];
  notes: string[];
  ranks: Rank[];
  total: { breakdown: DeviceTime[]; kernels: Record_[]; [table: string]: unknown };
  cut: { rank: string; table: string; records: number; of: number }[];
  met: Met | null;
  kinds: string[];
  edges: string[];
  timelines: Packed[];
}

/** Unpacks base64 and gzip. */
export async function unpack<T>(packed: string): Promise<T> {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text()) as T;
}
