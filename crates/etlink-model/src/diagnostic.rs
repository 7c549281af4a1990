//! Diagnostics: facts about files and results that users should know, as data. A sentence is made
//! of one where it is shown.

use crate::advice::advice;
use crate::anomaly::{Anomalies, AnomalyKind, Severity};
use crate::ids::GlobalRank;
use borsh::{BorshDeserialize, BorshSerialize};
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::mem::take;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $severity:ident;)*) => {
        /// Stable name of a kind of diagnostic.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
            BorshSerialize, BorshDeserialize,
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum DiagnosticCode {
            $($(#[doc = $doc])+ $name,)*
            /// An anomaly of a file, by its kind.
            // untagged: users see one list of codes
            #[serde(untagged)]
            Anomaly(AnomalyKind),
        }

        impl DiagnosticCode {
            /// Codes besides the kinds of anomalies, each with its meaning.
            pub const ALL: &[(DiagnosticCode, &str)] =
                &[$((DiagnosticCode::$name, concat!($($doc),+)),)*];

            /// Returns true if one of the diagnostics has this code.
            pub fn is_in(self, all: &[Diagnostic]) -> bool {
                all.iter().any(|one| one.code == self)
            }

            /// Returns the severity of diagnostics with this code.
            pub fn severity(self) -> Severity {
                match self {
                    $(DiagnosticCode::$name => Severity::$severity,)*
                    DiagnosticCode::Anomaly(kind) => kind.severity(),
                }
            }
        }
    };
}

codes! {
    // files of a folder
    /// Several folders are read as one run.
    FoldersJoined = Info;
    /// Folders may be parts of one run, but no rule shows which belong together.
    FoldersUnclear = Warning;
    /// A folder or file cannot be read.
    FileUnreadable = Warning;
    /// A file is not read: it is a copy, a view, or generated from another file.
    FileLeftOut = Info;
    /// A file that is not a trace is not read next to recordings.
    FileIgnored = Info;
    /// A file may be a damaged trace, because the folder lacks one.
    FileUnknown = Warning;
    /// A recording must be exported by its recorder's tool before it can be read.
    NotExported = Warning;
    /// Several files claim a rank, or a file contradicts its name or the manifest.
    RankUnclear = Warning;
    /// Ranks are taken from the recordings, because file names do not state them.
    RanksInferred = Info;
    /// Traces of a folder are read as consecutive cycles of one program.
    CyclesSplit = Info;
    /// A flight recorder dump, or a log of NCCL's inspector, is not used.
    DumpNotUsed = Warning;
    /// Flight recorder dumps of a separate folder are used.
    DumpsUsed = Info;
    /// Measurements next to the traces are used.
    MeasurementUsed = Info;
    /// Measurements next to the traces are not used.
    MeasurementNotUsed = Warning;
    /// A recording's manifest cannot be read.
    ManifestUnreadable = Warning;
    /// A recording's manifest lists ranks, sizes, steps or clocks that the traces do not have.
    ManifestDiffers = Warning;
    /// Ranks recorded different iterations.
    IterationsApart = Warning;
    // ranks of a run
    /// Ranks were not selected.
    RanksNotSelected = Info;
    /// Ranks of the run have no trace here.
    RanksAbsent = Warning;
    /// A trace is not part of the run's results.
    RankLeftOut = Warning;
    /// A trace is part of the run's results despite a mismatch.
    RankMismatch = Warning;
    /// A rank communicates with no other rank here.
    RankStranger = Warning;
    /// A file is a placeholder of a rank without work.
    RankIdle = Info;
    /// A part of the communications is not joined with other ranks.
    JoinIncomplete = Warning;
    /// Communications of ranks are missing, unequal or unknown.
    JoinProblem = Warning;
    /// A rank numbers its steps differently from the first rank.
    StepsShifted = Info;
    /// Ranks lack steps that others have.
    StepsDiffer = Info;
    /// The offset between the clocks of ranks is unknown, unchecked or contradicted.
    ClockUncertain = Warning;
    /// Communications waited for a rank whose recording began later.
    StartSkew = Info;
    // traces of a rank
    /// The clock of a device differs from the host's and was aligned.
    ClockAligned = Info;
    /// The two traces of a rank are from two runs of one program.
    TwoRuns = Damage;
    /// The two traces of a rank differ, but were linked on request.
    MismatchAllowed = Warning;
    /// The two traces of a rank cover different windows, or only one of them has some ops.
    OpsDiffer = Warning;
    /// Ops were matched by the order of their names, because ids do not show which are equal.
    MatchedByOrder = Warning;
    /// The host trace and the device trace are of different steps, as `--interleave` records them.
    Interleaved = Info;
    /// A trace is truncated or unfinished.
    TraceTruncated = Warning;
    /// A process forked while it was recorded, or two processes wrote to one file.
    HostIdsRepeated = Warning;
    /// The device trace has no device rows, ops, or ids of host nodes.
    DataMissing = Warning;
    /// Nothing ran in the recorded process.
    NothingRan = Warning;
    /// Recording slowed the program; the times are as recorded, or without the overhead.
    RecordingOverhead = Warning;
    /// Collectives have data from a flight recorder dump, or from a log of NCCL's inspector.
    DumpMatched = Info;
    /// Metrics of a profiler are joined to kernels.
    MetricsJoined = Info;
    /// Kernels and metrics of a profiler do not match completely.
    MetricsIncomplete = Warning;
    /// A capture trace adds no ops, or no shapes, to graph launches.
    CaptureUnused = Warning;
    /// Only a slice of the traces was read.
    SliceRead = Info;
    /// Ranges are not used as steps.
    StepsExcluded = Info;
    /// Merged JSON or a written graph lacks data of its recording.
    GraphLacks = Info;
    /// Nodes of a written graph have faults that its replay repairs.
    GraphRepaired = Warning;
    /// Events are not shown in the timeline.
    EventsNotShown = Info;
    // results
    /// Ranks or traces are not part of the findings.
    FindingsIncomplete = Warning;
    /// An answer to a what-if question has a caveat.
    WhatIfCaveat = Info;
    /// Collectives or messages of ranks wait for each other forever.
    Deadlock = Warning;
    /// Times are not those of the profiler's table, or have no start.
    TimesUncertain = Info;
    /// Workload cards contradict each other.
    CardsDiffer = Warning;
    /// Data cannot be written in the output's format.
    ConversionLoss = Warning;
    /// Ranks of a scaled run do not communicate with each other.
    RanksIndependent = Warning;
    /// The network of a simulation is an example, an estimate, or rounded.
    NetworkAssumed = Info;
    /// A simulator takes other times for nodes than those measured.
    SimulatedTimes = Info;
    /// The log of a simulator is incomplete.
    LogIncomplete = Warning;
    /// The simulator reports a problem.
    SimulatorSays = Warning;
    /// Simulated communications have no counterpart in the recording.
    SimulationUnpaired = Warning;
    /// Steps of a schedule are not recorded, or not completely.
    ScheduleIncomplete = Warning;
    /// Files are checked without comparing them with those of other ranks.
    CheckedAlone = Info;
    /// Results or parsed traces come from the cache.
    CacheUsed = Info;
    /// The cache is damaged, or cannot be used.
    CacheProblem = Warning;
    /// Timelines of some ranks are not in the page.
    TimelinesLimited = Info;
    /// A program is still being waited for, or was reached.
    Waiting = Info;
    /// A recording has a property that its results depend on.
    Recording = Info;
}

/// A fact about files or results that users should know.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, BorshSerialize, BorshDeserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diagnostic {
    /// Stable name of the kind of fact.
    pub code: DiagnosticCode,
    /// Severity of the kind.
    pub severity: Severity,
    /// Runs that the fact is about, if there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<String>,
    /// Ranks that the fact is about; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<GlobalRank>,
    /// Files that the fact is about, for those of unknown rank.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The fact in words.
    pub message: String,
    /// Action that removes the cause, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// Makes a [`Diagnostic`] from the name of its code and a format string.
#[macro_export]
macro_rules! diagnostic {
    ($code:ident, $($text:tt)+) => {
        $crate::Diagnostic::new(
            $crate::DiagnosticCode::$code,
            format_args!($($text)+).to_string(),
        )
    };
}

impl Anomalies {
    /// Returns a diagnostic per kind of this severity, in the order of [`AnomalyKind`].
    pub fn diagnostics(&self, severity: Severity) -> impl Iterator<Item = Diagnostic> {
        let kinds = self
            .iter()
            .filter(move |(kind, _)| kind.severity() == severity);
        kinds.map(|(kind, anomaly)| {
            Diagnostic::new(DiagnosticCode::Anomaly(kind), anomaly.describe(kind))
        })
    }

    /// Returns the damage of a file next to a trace. The message names it, because the subject is the
    /// trace.
    pub fn damage_in(&self, file: impl Display) -> impl Iterator<Item = Diagnostic> {
        let damage = self.diagnostics(Severity::Damage);
        damage.map(move |mut one| {
            one.message = format!("{file}: {}", one.message);
            one
        })
    }
}

impl Diagnostic {
    /// Creates a diagnostic without subject and remedy.
    pub fn new(code: DiagnosticCode, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: code.severity(),
            runs: vec![],
            ranks: vec![],
            files: vec![],
            message: message.into(),
            remedy: None,
        }
    }

    /// Adds the remedy; nothing if it is empty.
    #[must_use]
    pub fn advise(mut self, remedy: impl Into<String>) -> Diagnostic {
        self.remedy = Some(remedy.into()).filter(|remedy| !remedy.is_empty());
        self
    }

    /// Adds a rank as subject.
    #[must_use]
    pub fn of_rank(mut self, rank: GlobalRank) -> Diagnostic {
        self.ranks.push(rank);
        self
    }

    /// Adds a rank as subject, by its label: a number, or the name of a file of unknown rank.
    #[must_use]
    pub fn of_label(self, label: &str) -> Diagnostic {
        match label.parse() {
            Ok(rank) => self.of_rank(GlobalRank(rank)),
            Err(_) => self.of_file(label),
        }
    }

    /// Adds a file as subject.
    #[must_use]
    pub fn of_file(mut self, file: impl Display) -> Diagnostic {
        self.files.push(file.to_string());
        self
    }

    /// Adds a run as subject; nothing if its name is empty, or if the fact is about a file that may
    /// be of any run.
    #[must_use]
    pub fn of_run(mut self, run: &str) -> Diagnostic {
        if !run.is_empty() && self.code != DiagnosticCode::FileUnreadable {
            self.runs.push(run.to_owned());
        }
        self
    }

    /// Returns the diagnostic with its ranks and files, or without them for a single trace, which
    /// needs no name.
    #[must_use]
    pub fn named_if(mut self, is_named: bool) -> Diagnostic {
        if !is_named {
            self.ranks.clear();
            self.files.clear();
        }
        self
    }

    /// Combines diagnostics that differ only in their ranks and files, and then those that differ
    /// only in their runs, by first appearance. O(diagnostics).
    pub fn merge(all: impl IntoIterator<Item = Diagnostic>) -> Vec<Diagnostic> {
        let mut by_fact: FactMap<(FactSet<GlobalRank>, FactSet<String>)> = FactMap::default();
        for mut one in all {
            let (ranks, files) = (take(&mut one.ranks), take(&mut one.files));
            let known = by_fact.entry(one).or_default();
            known.0.extend(ranks);
            known.1.extend(files);
        }
        let mut by_subject: FactMap<FactSet<String>> = FactMap::default();
        for (mut one, (ranks, files)) in by_fact {
            let runs = take(&mut one.runs);
            one.ranks.extend(ranks);
            one.files.extend(files);
            by_subject.entry(one).or_default().extend(runs);
        }
        let merged = by_subject.into_iter().map(|(one, runs)| Diagnostic {
            runs: runs.into_iter().collect(),
            ..one
        });
        merged.collect()
    }

    /// Returns the names of the runs before a message.
    fn run_text(&self) -> String {
        match &self.runs[..] {
            [] => String::new(),
            [run] => format!("{run}: "),
            several => format!("{} runs ({}): ", several.len(), first_names(several)),
        }
    }

    /// Returns the names of the ranks and files before a message that does not name all of them.
    fn subject_text(&self) -> String {
        let ranks = self.ranks.iter().map(|rank| format!("rank {rank}"));
        let names: Vec<String> = ranks.chain(self.files.iter().cloned()).collect();
        if names.iter().all(|name| has_name(&self.message, name)) {
            return String::new();
        }
        // `rank 0 … rank 511` is only used for ranks without a gap
        let follow = self.files.is_empty()
            && self
                .ranks
                .is_sorted_by(|a, b| a.0.checked_add(1) == Some(b.0));
        match &names[..] {
            [] => String::new(),
            [one] => format!("{one}: "),
            [first, _, .., last] if follow => {
                format!("{} traces ({first} … {last}): ", names.len())
            }
            several => format!("{} traces ({}): ", several.len(), first_names(several)),
        }
    }
}

/// Returns true if a text contains a name that is no part of a longer one, as `rank 1` in `rank 12`.
fn has_name(text: &str, name: &str) -> bool {
    let mut found = text.match_indices(name);
    found.any(|(at, _)| {
        let rest = text[at + name.len()..].chars().next();
        !rest.is_some_and(char::is_alphanumeric)
    })
}

type FactMap<V> = IndexMap<Diagnostic, V, FxBuildHasher>;
type FactSet<T> = IndexSet<T, FxBuildHasher>;

/// Joins the first few names of a list.
fn first_names(names: &[String]) -> String {
    match names {
        [a, b, c, _, ..] => format!("{a}, {b}, {c}, …"),
        few => few.join(", "),
    }
}

/// Displays the subject, the message and the remedy in one line.
impl Display for Diagnostic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (runs, subject) = (self.run_text(), self.subject_text());
        let is_anomaly = matches!(self.code, DiagnosticCode::Anomaly(_));
        let damage = if is_anomaly && self.severity == Severity::Damage {
            "damage: "
        } else {
            ""
        };
        let remedy = advice(self.remedy.clone());
        write!(f, "{runs}{subject}{damage}{}{remedy}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[Diagnostic]) -> Vec<String> {
        Diagnostic::merge(all.iter().cloned())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn equal_facts_are_told_once_with_their_subjects() {
        let of = |run: &str, rank| {
            let fact = diagnostic!(NothingRan, "no work").advise("record it");
            fact.of_run(run).of_rank(GlobalRank(rank))
        };
        for (ranks, text) in [
            (&[3][..], "rank 3: no work; record it"),
            (&[0, 3], "2 traces (rank 0, rank 3): no work; record it"),
            (
                &[0, 1, 2, 2],
                "3 traces (rank 0 … rank 2): no work; record it",
            ),
        ] {
            let all: Vec<_> = ranks.iter().map(|rank| of("", *rank)).collect();
            assert_eq!(texts(&all), [text]);
        }
        assert_eq!(
            texts(&[of("a", 1), of("b", 1), of("c", 2)]),
            [
                "2 runs (a, b): rank 1: no work; record it",
                "c: rank 2: no work; record it"
            ]
        );
    }

    #[test]
    fn a_file_with_a_number_as_its_name_is_no_rank() {
        let fact = diagnostic!(NothingRan, "no work");
        let all = [fact.clone().of_rank(GlobalRank(7)), fact.of_file("7")];
        assert_eq!(texts(&all), ["2 traces (rank 7, 7): no work"]);
    }

    #[test]
    fn damage_of_a_file_next_to_a_trace_names_both() {
        let mut damage = Anomalies::default();
        for file in ["dump 0", "dump 2"] {
            damage.note(AnomalyKind::NamelessEntry, || "byte 3".to_owned());
            for (is_named, subject) in [(true, "rank 2: "), (false, "")] {
                let told = damage.damage_in(file).map(|one| one.of_rank(GlobalRank(2)));
                let told: Vec<_> = told.map(|one| one.named_if(is_named)).collect();
                let begin = format!("{subject}damage: {file}: ");
                assert!(texts(&told)[0].starts_with(&begin), "{told:?}");
            }
        }
    }

    #[test]
    fn an_unreadable_file_belongs_to_no_run() {
        let fact = diagnostic!(FileUnreadable, "cannot read x").of_run("a");
        assert_eq!(fact.runs, Vec::<String>::new());
    }

    #[test]
    fn a_code_has_one_name() {
        let mut names: Vec<String> = vec![];
        for (code, _) in DiagnosticCode::ALL {
            names.push(format!("{code:?}"));
        }
        for kind in AnomalyKind::ALL {
            names.push(format!("{kind:?}"));
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
