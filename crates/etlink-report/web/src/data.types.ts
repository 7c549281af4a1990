// Written by a test of the crate:
// INSTA_UPDATE=always cargo test -p etlink-report typescript

export type ArrivalDelays = {
  first: number[];
  ns: ((number | null)[])[];
};

export type CallTreeColumns = {
  with_frames: boolean;
  depth: number[];
  kind: number[];
  name: number[];
  count: number[];
  host_ns: number[];
  self_host_ns: number[];
  device_ns: number[];
  self_device_ns: number[];
  nodes: number;
  cut_share: number;
  total_host_ns: number;
  total_device_ns: number;
};

export type CaptureReport = {
  captures: number;
  launches: number;
  unnamed: number;
  unfinished: number;
  complete: number;
  partial: number;
  unknown: number;
  carried: number;
  ambiguous: number;
  not_found: number;
  without_op: number;
};

export type CauseTime = {
  ns: number;
  share: number;
};

export type CollectiveSkew = {
  kind: string;
  ranks: string;
  group: number;
  members: number;
  machines: null;
  inferred: boolean;
  number: number;
  dtype: string | null;
  bytes: number | null;
  start_ns: number;
  last: number;
  step: string | null;
  skew_ns: number;
  skew_error_ns: number;
  alone_ns: number;
  waited_ns: number;
  caused_ns: number;
  began_late_ns: number;
  start_skew_ns: number;
  handed_on_ns: number;
  waited_for?: unknown;
  transfer_ns: number | null;
  algorithm_bandwidth: number | null;
  bus_bandwidth: number | null;
};

export type CollectiveTotals = {
  kind: string;
  group: string;
  group_size: number;
  on_device: boolean;
  count: number;
  in_bytes: number | null;
  bytes: number | null;
  without_size: number;
  sum_ns: number;
  sized_ns: number;
  start_skew: number;
  start_skew_ns: number;
  algorithm_gb_per_s: number | null;
  bus_gb_per_s: number | null;
  latency_ns: null;
  ns_per_byte: null;
};

export type ComparedRow = {
  name: string;
  short_name: string;
  before_ns: number;
  after_ns: number;
  cost_ns: number;
  change_share: number | null;
};

export type ComparedRuns = {
  before: string;
  sentences: string[];
  tables: ComparedTable[];
};

export type ComparedTable = {
  title: string;
  rows: ComparedRow[];
  within_spread: number;
  cut: number;
};

export type ComputeRate = {
  device: number;
  rows: number;
  operations: number;
  sum_ns: number;
  window: string;
  steps: number;
  window_ns: number;
  tflops: number;
  busy_tflops: number;
};

export type ContradictedEdges = {
  edges: number;
  worst: unknown[];
};

export type CopyTotals = {
  kind: string;
  rows: number;
  rows_without_size: number;
  bytes: number;
  sum_ns: number;
  sized_sum_ns: number;
  busy_ns: number;
  sized_busy_ns: number;
  gb_per_s: null;
  max_gb_per_s: null;
};

export type DelaySummary = {
  count: number;
  total_ns: number;
  max_ns: number;
};

export type DeviceClock = {
  device: number;
  ahead_ns: number;
  at_most_ns: number | null;
  drift_ppb: number;
  at_ns: number;
  returns: number;
  launches: number;
  contradicted: number;
  residual_ns: number;
};

export type DeviceTime = {
  device: number | null;
  start_ns: number;
  window_ns: number;
  outside_ns: number;
  computation_ns: number;
  exposed_communication_ns: number;
  exposed_memory_ns: number;
  exposed_other_ns: number;
  idle_ns: number;
  communication_ns: number;
  memory_ns: number;
  overlap_ns: number;
  overlap_share: number | null;
};

export type Diagnostic = {
  code: string;
  severity: string;
  runs?: string[];
  ranks?: number[];
  files?: string[];
  message: string;
  remedy?: string | null;
};

export type DrawnCollective = {
  kind: string;
  ranks: string;
  group: number;
  number: number;
  bytes: number | null;
  start_ns: number;
  first: number;
  last: number;
  skew_ns: number;
  alone_ns: number;
};

export type EdgeFigures = {
  count: number;
  inferred: number;
  decided: number;
  latency: Percentiles;
};

export type FindingLink = {
  cause: string;
  title: string;
  gain_share: number;
  evidence: string;
  remedy: string;
  rank: string;
  begin_ns: number | null;
  end_ns: number | null;
};

export type HostIdle = {
  device: number;
  host: string | null;
  gaps: number;
  idle_ns: number;
  share: number;
};

export type HostOpTotals = {
  name: string;
  count: number;
  self_ns: number;
  total_ns: number;
  share: number | null;
};

export type IdleCauses = {
  device: number | null;
  stream: number | null;
  busy_ns: number;
  outside_ns: number;
  gaps: number;
  idle_ns: number;
  host_late_ns: number;
  event_wait_ns: number;
  launch_call_ns: number;
  launch_ns: number;
  between_ns: number;
  unexplained_ns: number;
  longest_ns: number;
};

export type IdleGap = {
  device: number;
  start_ns: number;
  length_ns: number;
  cause: string;
  cause_ns: number;
  host: string | null;
  host_ns: number;
  row_before: string;
  row_after: string;
};

export type KernelCounter = {
  name: string;
  metric: string;
  unit: string;
  kernels: number;
  mean: number;
  min: number;
  max: number;
};

export type KernelRecord = {
  class: string;
  label: string;
  name: string;
  short_name: string;
  count: number;
  sum_ns: number;
  start_skew_ns: number;
  mean_ns: number;
  min_ns: number;
  max_ns: number;
  stddev_ns: number | null;
  share: number | null;
  op: string;
  other_ops: number;
};

export type KernelSequence = {
  op: string;
  count: number;
  rows: number;
  device_ns: number;
  op_ns: number;
  names: string;
};

export type LaunchTotals = {
  name: string;
  graph: boolean;
  calls: number;
  rows: number;
  rows_ns: number;
  short_rows: number;
  call_ns: number;
  call_mean_ns: number;
  call_max_ns: number;
  delay_mean_ns: number;
  delay_min_ns: number;
  delay_max_ns: number;
};

export type LinkReport = {
  diagnostics: Diagnostic[];
  rank: number | null;
  world_size: number | null;
  host_schema: string | null;
  overhead?: unknown;
  host_ops: number;
  cpu_ops: number;
  matched: { [key: string]: number };
  unmatched: UnmatchedCounts;
  device_rows: number;
  launched: number;
  no_launch: { [key: string]: number };
  owned_by_op: number;
  graph_launches: number;
  graph_rows: number;
  capture?: CaptureReport | null;
  nodes: { [key: string]: number };
  edges: { [key: string]: number };
  device_clocks?: DeviceClock[];
  window: TimeWindow;
  anomalies: {
    kind: string;
    severity: string;
    count: number;
    first?: string | null;
    meaning: string;
  }[];
};

export type MatchedRanges = {
  range: number[];
  joint: number[];
};

export type MemoryChart = {
  device_type: string;
  device: number;
  points: number;
  time_ns: number[];
  allocated_bytes: number[];
  reserved_bytes: number[];
  stacks: StackCurve[];
};

export type MemoryPoint = {
  time_ns: number;
  device_type: string;
  device: number;
  bytes: number;
  allocated_bytes: number;
  reserved_bytes: number;
};

export type MemoryUse = {
  device_type: string;
  device: number;
  allocations: number;
  frees: number;
  allocated_sum_bytes: number;
  start_bytes: number;
  end_bytes: number;
  peak_bytes: number;
  peak_ns: number;
  peak_reserved_bytes: number;
};

export type OutsideWork = {
  device: number;
  launched: string;
  rows: number;
  sum_ns: number;
};

export type PageData = {
  written_by: string;
  title: string;
  sentence: string;
  cards: SummaryCard[];
  diagnostics: Diagnostic[];
  findings: FindingLink[];
  compared: ComparedRuns | null;
  simulated: SimulatedPart | null;
  ranks: ReportRank[];
  total: RunTotals;
  cut: ShortenedTable[];
  met: RankStats | null;
  kinds: string[];
  edges: string[];
};

export type PageTrees = {
  kinds: string[];
  names: string[];
  ranks: CallTreeColumns[][];
};

export type PairBytes = {
  group: number;
  from: number;
  to: number;
  bytes: number;
  count: number;
  received_to_mean: number;
};

export type PathColumns = {
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

export type PathReport = {
  makespan_ns: number;
  nodes: number;
  edges: { [key: string]: number };
  busy: number;
  causes: { [key: string]: CauseTime };
  ranks?: unknown;
  crossings?: unknown;
  steps: {
    node: number;
    name: string;
    kind: string;
    place: string;
    start_ns: number;
    duration_ns: number;
    via: string | { [key: string]: string };
    latency_ns: number;
  }[];
};

export type PeakUse = {
  device: number;
  name: string;
  window: string;
  steps: number;
  window_ns: number;
  sheet: string;
  covered: number;
  mfu: number | null;
  roof_share: number | null;
  bandwidth_share: number | null;
  memory_bound: number | null;
  gb_per_s: number | null;
  link_gb_per_s: number | null;
};

export type Percentiles = {
  p50_ns: number;
  p90_ns: number;
  p99_ns: number;
  max_ns: number;
};

export type QueueDepth = {
  device: number;
  stream: number;
  rows: number;
  window_ns: number;
  mean_length: number;
  max_length: number;
  limit: null;
  blocked: number;
  full_ns: number;
};

export type RankClock = {
  rank: number;
  offset_ns: number;
  uncertainty_ns: number | null;
  likely_error_ns: number;
  support: number;
  contradicted: boolean;
  drift?: unknown;
  at_ns: number;
  by_machine: boolean;
};

export type RankStats = {
  clocks: RankClock[];
  ranks: StragglerStats[];
  absent: boolean;
  skews: CollectiveSkew[];
  count: number;
  late: ArrivalDelays;
  pairs: PairBytes[];
};

export type ReplayFigures = {
  nodes: number;
  edges: number;
  device_ops: number;
  streams: number;
  measured_ns: number | null;
  corrected_ns?: number;
  replayed_ns: number;
  replay_error: number | null;
  end_error: {
    mean_ns: number;
    mean_share: number;
    p50_ns: number;
    p90_ns: number;
    p99_ns: number;
    max_ns: number;
    p99_share: number;
    worst: unknown[];
  } | null;
  unexplained: UnexplainedWaits;
  contradictions: ContradictedEdges | null;
  by_edge: { [key: string]: EdgeFigures };
  boundary: DelaySummary;
};

export type ReportRank = {
  label: string;
  device_trace: string;
  host_trace: string | null;
  device: string | null;
  rank: number | null;
  utilization: Utilization[];
  breakdown: DeviceTime[];
  kernels: KernelRecord[];
  outside: OutsideWork[];
  host_ops: HostOpTotals[];
  idle: IdleCauses[];
  stream_idle: IdleCauses[];
  host_idle: HostIdle[];
  gaps: IdleGap[];
  launches: LaunchTotals[];
  op_launches: LaunchTotals[];
  queues: QueueDepth[];
  copies: CopyTotals[];
  steps: StepTime[];
  phases: {
    phase: string;
    count: number;
    sum_ns: number;
    mean_ns: number;
    min_ns: number;
    max_ns: number;
    stddev_ns: null;
    median_ns: number;
    period_ns: number;
    batch: number | null;
    tokens: number | null;
    tokens_per_s: number | null;
    device_window_ns: number;
    computation_ns: number;
    exposed_communication_ns: number;
    idle_ns: number;
  }[];
  coverage: SmCoverage[];
  work: ComputeRate[];
  counters: KernelCounter[];
  peaks: PeakUse[];
  collectives: CollectiveTotals[];
  sequences: KernelSequence[];
  memory: MemoryUse[];
  memory_timeline: MemoryPoint[];
  memory_charts: MemoryChart[];
  link: LinkReport | null;
  figures: ReplayFigures | null;
  critical_path: PathReport | null;
};

export type RunMetric = {
  name: string;
  value: number;
  unit: string;
};

export type RunTotals = {
  utilization: Utilization[];
  breakdown: DeviceTime[];
  kernels: KernelRecord[];
  host_ops: HostOpTotals[];
  idle: IdleCauses[];
  launches: LaunchTotals[];
  op_launches: LaunchTotals[];
  copies: CopyTotals[];
  phases: {
    phase: string;
    count: number;
    sum_ns: number;
    mean_ns: number;
    min_ns: number;
    max_ns: number;
    stddev_ns: number | null;
    median_ns: number;
    period_ns: number;
    batch: number | null;
    tokens: number | null;
    tokens_per_s: number | null;
    device_window_ns: number;
    computation_ns: number;
    exposed_communication_ns: number;
    idle_ns: number;
  }[];
  collectives: CollectiveTotals[];
  sequences: KernelSequence[];
  metrics: RunMetric[];
};

export type ShortenedTable = {
  rank: string;
  table: string;
  records: number;
  of: number;
};

export type SimulatedCommRow = {
  kind: string;
  between: string;
  number: number;
  bytes: number;
  simulated_ns: number | null;
  measured_ns: number | null;
  longer_ns: number | null;
};

export type SimulatedKindRow = {
  kind: string;
  count: number;
  simulated_ns: number | null;
  measured_ns: number | null;
  change_share: number | null;
  last_done_ns: number | null;
  simulated_wait_ns: number;
  measured_wait_ns: number;
};

export type SimulatedPart = {
  log: string;
  sentences: string[];
  ranks: SimulatedRankRow[];
  kinds: SimulatedKindRow[];
  communications: SimulatedCommRow[];
  cut: number;
  tracks: SimulatedTrack[];
  not_drawn: number;
};

export type SimulatedRankRow = {
  rank: number;
  simulated_ns: number | null;
  measured_ns: number | null;
  change_share: number | null;
  communication_ns: number | null;
  measured_communication_ns: number | null;
  exposed_ns: number | null;
};

export type SimulatedSpan = {
  start_ns: number;
  duration_ns: number;
  name: string;
};

export type SimulatedTrack = {
  rank: number;
  simulated: boolean;
  end_ns: number;
  spans: SimulatedSpan[];
};

export type SmCoverage = {
  device: number;
  multiprocessors: number;
  rows: number;
  time_share: number;
  by_time: number;
  by_row: number;
  low_share: number;
  high_share: number;
};

export type StackCurve = {
  name: string;
  peak_bytes: number;
  bytes: number[];
};

export type StepTime = {
  name: string;
  phase: string | null;
  batch: number | null;
  tokens: number | null;
  start_ns: number;
  duration_ns: number;
  begin_ns: number;
  length_ns: number;
  between_ops_ns: number;
  rows: number;
  excluded: null;
  device_start_ns: number;
  device_window_ns: number;
  computation_ns: number;
  exposed_communication_ns: number;
  exposed_memory_ns: number;
  exposed_other_ns: number;
  idle_ns: number;
  unknown_ns?: number;
  communication_ns: number;
  overlap_ns: number;
};

export type StragglerStats = {
  rank: number;
  collectives: number;
  last: number;
  caused_ns: number;
  caused_uncertainty_ns: number;
  began_late_ns: number;
  start_skew_ns: number;
  handed_on_ns: number;
  waited_ns: number;
};

export type SummaryCard = {
  name: string;
  value: string;
  note: string;
};

export type TimeWindow = {
  start_ns: number;
  end_ns: number;
};

export type Timeline = {
  label: string;
  rank: number | null;
  step: string | null;
  step_ns: number | null;
  window_ns: number;
  origin_ns: number;
  common_ns: number | null;
  note: string;
  ranges: number;
  together_ns: number;
  tracks: TimelineTrack[];
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
  op: number[];
  deps: WaitColumns;
  path: PathColumns;
  met: MatchedRanges;
  joints: DrawnCollective[] | null;
};

export type TimelineTrack = {
  name: string;
  group: string;
  stream: boolean;
  ranges: number;
};

export type UnexplainedWaits = {
  device_ops: number;
  share_of_ops: number;
  waiting_ns: number;
  share_of_time: number;
  worst: unknown[];
};

export type UnmatchedCounts = {
  host_outside_window: number;
  host_not_in_device: number;
  device_not_in_host: number;
  same_id_other_name: number;
};

export type Utilization = {
  device: number | null;
  window: string;
  steps: number;
  start_ns: number;
  window_ns: number;
  before_recording_ns: number;
  unknown_ns?: number;
  busy_ns: number;
  computation_ns: number;
  exposed_communication_ns: number;
  exposed_memory_ns: number;
  idle_ns: number;
  busy_share: number | null;
};

export type WaitColumns = {
  to: number[];
  from: number[];
  kind: number[];
  at: number[];
  gap: number[];
  flags: number[];
};
