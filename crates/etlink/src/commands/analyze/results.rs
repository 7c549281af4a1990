//! Results of analyzing the traces of a run.

use super::card::CardFacts;
use super::chakra::RankForm;
use crate::cut_traces::{cut_line, row_damage_lines};
use crate::run_findings::FoundRank;
use crate::{notes, table};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::RecordingContent;
use etlink_link::ranks::RankSummary;
use etlink_model::{Anomalies, Diagnostic, GlobalRank, Severity, UnixNs};
use etlink_run::measurements::RunMeasurements;
use etlink_run::membership::Excluded;
use serde::Serialize;
use std::path::Path;

/// Identity of an analyzed trace.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(feature = "parquet"),
    allow(dead_code, reason = "only tables are named by run and label")
)]
pub(super) struct AnalyzedTrace<'a> {
    /// Folder of the run; empty for a file.
    pub(super) run: &'a Path,
    /// Label, as in [`Ranked`].
    pub(super) label: &'a str,
    /// Rank according to the file name.
    pub(super) rank: Option<i64>,
    /// True if the trace is a written graph.
    pub(super) written: bool,
}

/// Results of one run, per rank.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(in crate::commands) struct AnalyzedRun<T> {
    /// Folder of the run; empty for a file.
    pub(super) run: String,
    /// Name in text: the folder, or the source for traces directly in a folder with several runs.
    #[serde(skip)]
    pub(super) name: String,
    /// Notes about the files.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Results per rank.
    pub(super) ranks: Vec<Ranked<T>>,
    /// Traces that could not be linked, or do not belong to the run.
    pub(super) excluded: Vec<Excluded>,
    /// Ranks of the run without results here.
    pub(super) absent: Vec<GlobalRank>,
    /// Measurements next to the traces.
    #[serde(skip)]
    pub(super) measured: RunMeasurements,
}

#[derive(Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Ranked<T> {
    /// Label of the rank: its number, or the name of its file.
    pub(super) label: String,
    /// Path of the device trace.
    pub(super) device_trace: String,
    /// Path of the host trace.
    pub(super) host_trace: Option<String>,
    /// Notes about the rank's traces.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// Defects of the rank's traces.
    pub(super) anomalies: Anomalies,
    /// Content of the rank's recording; missing for a written graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recording: Option<RecordingContent>,
    /// Source of the rank's data.
    #[serde(skip)]
    pub(super) form: RankForm,
    /// True if the device trace is truncated.
    #[serde(skip)]
    pub(super) is_cut: bool,
    /// Origin of the times of the rank's trace.
    #[serde(skip)]
    pub(super) base_ns: UnixNs,
    #[serde(flatten)]
    pub(super) said: T,
    /// Data for joining the rank with the others.
    #[serde(skip)]
    #[borsh(skip)]
    pub(super) summary: Option<RankSummary>,
    /// Facts from the traces for a workload card.
    #[serde(skip)]
    pub(super) card: CardFacts,
    /// Possible gains of the rank, if requested.
    #[serde(skip)]
    pub(super) found: Option<FoundRank>,
}

impl<T> AnalyzedRun<T> {
    /// Prints the notes on all runs.
    pub(super) fn print_notes<'r>(runs: impl Iterator<Item = &'r AnalyzedRun<T>>)
    where
        T: 'r,
    {
        notes::print_of_runs(runs.map(|run| (run.name.as_str(), run.notes_of())));
    }

    pub(super) fn notes_of(&self) -> Vec<Diagnostic> {
        let is_named = !self.is_only_trace();
        let mut all = self.diagnostics.clone();
        for rank in &self.ranks {
            let told = rank.diagnostics.iter().cloned();
            all.extend(told.map(|one| one.named_if(is_named)));
        }
        if notes::is_verbose() {
            for rank in &self.ranks {
                let infos = rank.anomalies.diagnostics(Severity::Info);
                all.extend(
                    infos.map(|info| info.of_file(table::rank(&rank.label)).named_if(is_named)),
                );
            }
        }
        Diagnostic::merge(all)
    }

    /// Returns lines about defects of device rows, printed before all figures.
    pub(super) fn row_damage_lines(&self) -> String {
        let told = self.ranks.iter().flat_map(|rank| &rank.diagnostics);
        row_damage_lines(told, self.is_only_trace())
    }

    /// Returns a line about the content of the recordings; empty for written graphs.
    pub(super) fn recording_line(&self) -> String {
        let ranks = self.ranks.iter();
        let contents: Option<Vec<_>> = ranks.map(|rank| rank.recording.as_ref()).collect();
        match contents.filter(|contents| !contents.is_empty()) {
            Some(contents) => {
                let content = RecordingContent::of_ranks(contents.into_iter());
                format!("recording: {}\n", content.sentence())
            }
            None => String::new(),
        }
    }

    /// Returns a line about truncated device traces; empty if there are none.
    pub(super) fn cut_line(&self) -> String {
        let cut = self.ranks.iter().filter(|rank| rank.is_cut);
        let labels: Vec<&str> = cut.map(|rank| rank.label.as_str()).collect();
        cut_line(&labels, self.is_only_trace())
    }

    fn is_only_trace(&self) -> bool {
        self.ranks.len() + self.excluded.len() == 1
    }
}
