//! Anomalies of an input: kind, severity, count and first place. Damage is data, not an error.

use crate::time::time_text;
use borsh::{BorshDeserialize, BorshSerialize};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize, Serializer};
#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::io::{self, Read, Write};

/// Severity of an anomaly in an input or of a finding in an output, mildest first.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    BorshSerialize,
    BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing; nothing is lost.
    Info,
    /// Accepted by every reader, but possibly not as intended.
    Warning,
    /// Something was repaired or left out; the rest is right. `--strict` turns it into an error.
    Damage,
    /// A reader aborts, hangs or loses nodes.
    Error,
}

macro_rules! anomalies {
    ($($(#[$doc:meta])+ $name:ident = $severity:ident, $text:literal;)*) => {
        /// Kind of anomaly that a reader or the linker can report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, BorshSerialize, BorshDeserialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum AnomalyKind { $($(#[$doc])+ $name,)* }

        impl AnomalyKind {
            /// All kinds.
            pub const ALL: &[AnomalyKind] = &[$(AnomalyKind::$name,)*];

            /// Returns the severity of this kind.
            pub fn severity(self) -> Severity {
                match self { $(AnomalyKind::$name => Severity::$severity,)* }
            }

            /// Returns true if this kind is found by comparing device rows with each other and
            /// their launches.
            pub fn is_of_rows(self) -> bool {
                AnomalyKind::EventTwice <= self && self <= AnomalyKind::RecorderFailed
            }

            /// Returns a one-line description for people.
            pub fn describe(self) -> &'static str {
                match self { $(AnomalyKind::$name => $text,)* }
            }
        }
    };
}

anomalies! {
    /// The array was not closed.
    Truncated = Damage, "the file is truncated: all complete entries are used";
    /// The gzip, zstd or packet stream ended early or broke.
    SourceEnded = Damage, "the stream of the file is truncated or damaged: the data before the damage is used";
    /// An element was repaired.
    Repaired = Info, "entries with unescaped quotes, repaired";
    /// An element was dropped.
    Skipped = Damage, "entries that are not valid JSON, left out";
    /// A flight recorder entry without a name or a time.
    NamelessEntry = Damage, "dump entries without a name or a time, left out";
    /// An entry of a written graph that is not a message.
    Undecodable = Damage, "entries of a written graph that cannot be decoded, left out";
    /// A damaged part of a protobuf message.
    BrokenMessage = Damage, "parts of a protobuf trace that cannot be decoded, left out";
    /// An event that refers to a name missing from the file.
    NamelessEvent = Damage, "events whose name is missing from the file, left out";
    /// A kernel that refers to a symbol missing from the file.
    NamelessKernel = Damage, "kernels whose name is missing from the file, shown as unknown_kernel";
    /// A written graph states a node count that differs from its nodes.
    NodeCountDiffers = Damage,
        "nodes more or fewer than the file states: it is truncated, or two files were joined into one";
    /// Broken text around the array.
    HeaderDamaged = Info, "places outside the list that are not valid JSON, repaired or left out";
    /// Text after the document's closing brace.
    TextBehind = Damage,
        "pieces of text after the end of the document, left out: another process may have written to \
         the same file";
    /// Damage inside a database table.
    TableDamaged = Damage,
        "damaged tables in the database: rows before the damage are used";
    /// A cell whose type does not fit its column.
    BadCell = Damage, "database values of the wrong type, read as absent";
    /// A document key that occurs twice.
    RepeatedKey = Damage,
        "duplicate keys in the document: the first list or the last other value is used";
    /// A file truncated before its time base: Kineto of PyTorch 2.4 to 2.8 writes
    /// `baseTimeNanoseconds` after the events.
    NoTimeBase = Damage,
        "the file is truncated before its time base: its times cannot be compared with other \
         files";
    /// An array element that is not an object.
    NotAnObject = Info, "list entries that are not objects, left out";
    /// A duration that is not a number or is too large.
    BadNumber = Damage, "durations that are not numbers or are longer than 292 years, read as 0";
    /// A negative duration.
    NegativeDuration = Damage, "negative durations, read as 0";
    /// A complete event without a numeric `ts`.
    NoTime = Damage, "events without a start time, left out";
    /// A start or an end that is not [in range](crate::TimeNs::is_in_range).
    TimeOutOfRange = Damage,
        "events that start or end more than 146 years from the trace's origin, left out";
    /// An op with Kineto's `finished: false`.
    Unfinished = Info, "ops still open when recording stopped: they end with the recording";
    /// Two host nodes with the same id.
    DuplicateNodeId = Damage, "host nodes with a duplicate id: the first node is kept";
    /// Two host nodes with the same record function id.
    DuplicateRfId = Damage,
        "record function ids used by several host nodes or ops: the first one is matched";
    /// A host node without an id.
    NoNodeId = Damage, "host nodes without an id, left out";
    /// A parent id missing from the file.
    OrphanNode = Info,
        "host nodes whose parent is missing from the file: attached to their thread's root";
    /// A parent chain that forms a cycle.
    ParentCycle = Damage,
        "host nodes that are their own ancestors: attached to their thread's root";
    /// A host trace whose observer was not unregistered.
    NoFinish = Info, "the host trace has no finish_ts: its observer was not unregistered";
    /// An unknown schema string.
    UnknownSchema = Info, "the schema is unknown: the file is read by its structure";
    /// Host ops on one thread that overlap without nesting.
    PartialOverlap = Info, "ranges on one thread that overlap without nesting";
    /// Device rows that overlap on a queue.
    StreamOverlap = Info,
        "device rows that overlap on one stream, which consecutive launches do not explain: no order \
         edge between them";
    /// A device row that starts before its launch call.
    StartBeforeLaunch = Info,
        "device rows that start more than 1 ms before their launch call: no launch edge";
    /// A launch proven by ids although the times contradict it.
    LaunchCorrected = Info,
        "device rows that, by the clocks, start up to 1 ms before their launch call: they keep their \
         launch edge, with a negative latency";
    /// A recorded dependency between CUDA graph nodes whose rows are missing from the file.
    GraphDependencyLost = Info,
        "recorded CUDA graph dependencies whose rows are missing from the file: no edge";
    /// A wait that the times contradict.
    WaitContradicted = Info,
        "waits for an event or a stream that the measured times contradict: no edge";
    /// A wait proven by the trace or the call's meaning although the times contradict it.
    WaitCorrected = Info,
        "calls that, by the clocks, return before the device work they waited for ends: they keep \
         their edge, with a negative latency";
    /// A tensor that is read while another thread is still writing it.
    TensorContradicted = Info,
        "ops that use a tensor before another thread's op has finished writing it: no edge";
    /// Joined pieces of a tensor that have more threads than are remembered.
    TensorUsersDropped = Info,
        "ops that used a piece of a tensor shared by more than 16 threads: later readers of the \
         whole tensor have no edge from them";
    /// An ET parent that differs from Kineto's nesting.
    ParentDiffers = Info, "host ops whose recorded parent is not the op that encloses them";
    /// Ops, calls and device rows that occur twice in the file.
    EventTwice = Damage, "duplicate events: one copy of each is kept";
    /// A device row whose time the recorder does not know.
    RowWithoutTime = Damage,
        "device rows without a time (start and duration 0, or a zero duration that rounding does \
         not explain): left out";
    /// A device row at an impossible time.
    RowTimeImpossible = Damage,
        "device rows that start far outside the recording, or more than 1 ms out of launch order on \
         their stream: left out";
    /// A device row that overlaps rows that had to wait for it.
    RowOverlong = Damage,
        "device rows that extend over later rows of their stream, or far beyond the recording: \
         shortened to end there";
    /// Rows that share the correlation of a call launching one kernel, while other calls have no
    /// row.
    CorrelationShared = Damage,
        "device rows with the correlation of another launch: assigned, in order, to neighbouring \
         launches without a row";
    /// Rows that share the correlation of a call launching one kernel, with unknown owners.
    CorrelationAmbiguous = Damage,
        "device rows that share the correlation of a launch of one kernel: which row belongs to it \
         is unknown";
    /// A launch call without a row.
    LaunchWithoutRow = Damage, "launches without a device row: the recorder lost their rows";
    /// Ops without a launch, where correlation ids are missing.
    OpWithoutLaunch = Damage,
        "ops without a launch, which launch device work elsewhere, where correlation ids are missing: \
         the recorder probably lost calls and their rows";
    /// A row without a call although rows of its name have one.
    CallLost = Damage,
        "device rows without a launch, between launches of the same kernels: the recorder lost the \
         calls";
    /// Messages in the recorder's log about lost events.
    RecorderLost = Damage, "recorder messages about lost events";
    /// Messages in the recorder's log about devices it could not record, in a trace without device
    /// rows.
    RecorderFailed = Damage,
        "recorder messages about devices that it could not record, and the trace has no device rows";
    /// An op that the device trace lacks between others of its thread.
    OpLost = Damage,
        "ops that the device trace lacks between others, although their calls or the host trace name \
         them: the recorder lost them, or was switched off meanwhile";
    /// Ops, steps and calls whose times contradict each other.
    HostTimeImpossible = Damage,
        "ops and steps that extend over the end of the one around them, or calls outside their op: \
         some of their times are wrong";
    /// Kineto host rows without pid or tid.
    NoThread = Info, "host rows without a process or thread id, assigned to thread 0";
    /// Correlation ids shared by several calls, for example of processes that share a device.
    DuplicateCorrelation = Info,
        "device rows whose correlation id several calls use (ids restart, or processes share a \
         device): matched to the latest call before the row";
    /// Matched ops whose sequence numbers differ.
    SequenceDiffers = Damage,
        "ops matched by order alone whose sequence numbers differ: the traces are from different \
         iterations";
    /// Collectives named differently by the two traces.
    CollectiveDiffers = Damage,
        "collectives with different groups or sizes in the two traces: the device trace's values are \
         used";
}

/// Count and first place of one kind of anomaly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Anomaly {
    /// Number of occurrences.
    pub count: u64,
    /// Number of rows or launches that were checked, if known.
    #[serde(skip_serializing_if = "is_zero")]
    pub of: u64,
    /// Recorded device time missing from the figures, in ns.
    #[serde(skip_serializing_if = "is_zero")]
    pub device_ns: u64,
    /// All recorded device time in ns, if a part of it is left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub of_device_ns: u64,
    /// First place: a byte offset, a name or an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Anomaly {
    /// Adds a later anomaly; its place counts only if none is known yet.
    fn add(&mut self, later: Anomaly) {
        // a file can state any count, so the sums saturate
        self.count = self.count.saturating_add(later.count);
        self.of = self.of.saturating_add(later.of);
        self.device_ns = self.device_ns.saturating_add(later.device_ns);
        self.of_device_ns = self.of_device_ns.saturating_add(later.of_device_ns);
        self.first = self.first.take().or(later.first);
    }

    /// Describes an anomaly of `kind`, of damage with its share and its first place.
    pub(crate) fn describe(&self, kind: AnomalyKind) -> String {
        if kind.severity() < Severity::Damage {
            return counted_text(self.count, kind.describe());
        }
        let mut facts = vec![match self.of {
            0 => self.count.to_string(),
            of => format!("{} of {of}", self.count),
        }];
        if self.device_ns > 0 {
            let share = self.device_ns as f64 / self.of_device_ns.max(1) as f64;
            let [part, whole] = [self.device_ns, self.of_device_ns]
                .map(|ns| time_text(i64::try_from(ns).unwrap_or(i64::MAX)));
            facts.push(format!(
                "{part} of {whole} of device time, {:.1} %",
                100.0 * share
            ));
        }
        facts.extend(self.first.iter().map(|first| format!("first: {first}")));
        format!("{} ({})", kind.describe(), facts.join(", "))
    }
}

/// Returns a description with its count: `3 nodes whose id another node has`. A description of the
/// file as a whole needs no number for a single occurrence.
pub fn counted_text(count: u64, description: &str) -> String {
    let is_of_file = ["the ", "a "]
        .iter()
        .any(|article| description.starts_with(article));
    if is_of_file && count <= 1 {
        description.to_owned()
    } else if count == 1 {
        // Descriptions are plural.
        format!("{description} (1)")
    } else {
        format!("{count} {description}")
    }
}

/// Anomaly counts by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anomalies {
    counts: IndexMap<AnomalyKind, Anomaly, FxBuildHasher>,
}

impl Anomalies {
    /// Counts one more anomaly of `kind`; `place` is called only for the first.
    pub fn note(&mut self, kind: AnomalyKind, place: impl FnOnce() -> String) {
        let entry = self.counts.entry(kind).or_default();
        // A damaged trace has millions of places, and reports show only the first, so no other is
        // formatted.
        if entry.count == 0 {
            entry.first = Some(place()).filter(|p| !p.is_empty());
        }
        entry.count += 1;
    }

    /// Adds `count` anomalies of `kind`.
    pub fn add(&mut self, kind: AnomalyKind, count: u64, first: Option<String>) {
        self.add_all(
            kind,
            Anomaly {
                count,
                first,
                ..Anomaly::default()
            },
        );
    }

    /// Adds an anomaly of `kind`, unless its count is 0.
    pub fn add_all(&mut self, kind: AnomalyKind, found: Anomaly) {
        if found.count > 0 {
            self.counts.entry(kind).or_default().add(found);
        }
    }

    /// Adds all anomalies of `later`.
    pub fn merge(&mut self, later: Anomalies) {
        for (kind, anomaly) in later.counts {
            self.add_all(kind, anomaly);
        }
    }

    /// Returns the number of anomalies of `kind`.
    pub fn count(&self, kind: AnomalyKind) -> u64 {
        self.counts.get(&kind).map_or(0, |a| a.count)
    }

    /// Returns true if a file is truncated.
    pub fn is_cut(&self) -> bool {
        self.count(AnomalyKind::Truncated) > 0 || self.count(AnomalyKind::SourceEnded) > 0
    }

    /// Returns the anomalies in the order of [`AnomalyKind`].
    pub fn iter(&self) -> impl Iterator<Item = (AnomalyKind, &Anomaly)> {
        let mut all: Vec<_> = self
            .counts
            .iter()
            .map(|(kind, anomaly)| (*kind, anomaly))
            .collect();
        // Kinds are stored in input order; reports list them in the same order for all inputs.
        all.sort_by_key(|(kind, _)| *kind);
        all.into_iter()
    }

    /// Returns true if any anomaly of at least `severity` occurred.
    pub fn any(&self, severity: Severity) -> bool {
        self.counts.keys().any(|kind| kind.severity() >= severity)
    }
}

/// Printed form of an anomaly.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
struct AnomalyRecord<'a> {
    /// Kind of anomaly.
    kind: AnomalyKind,
    /// Severity of the kind.
    severity: Severity,
    #[serde(flatten)]
    anomaly: &'a Anomaly,
    /// Meaning of the kind, for people.
    meaning: &'static str,
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Anomalies {
    fn schema_name() -> Cow<'static, str> {
        "Anomalies".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<AnomalyRecord<'_>>::json_schema(generator)
    }
}

/// Serializes a list of records: kind, severity, count, first place, meaning.
impl Serialize for Anomalies {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|(kind, anomaly)| AnomalyRecord {
            kind,
            severity: kind.severity(),
            anomaly,
            meaning: kind.describe(),
        }))
    }
}

impl BorshSerialize for Anomalies {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        BorshSerialize::serialize(&self.iter().collect::<Vec<_>>(), writer)
    }
}

impl BorshDeserialize for Anomalies {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<Anomalies> {
        let all = Vec::<(AnomalyKind, Anomaly)>::deserialize_reader(reader)?;
        let mut anomalies = Anomalies::default();
        for (kind, anomaly) in all {
            anomalies.add_all(kind, anomaly);
        }
        Ok(anomalies)
    }
}
