//! Results of analyzing the traces of a run.

use super::card::CardFacts;
use super::chakra::RankForm;
use crate::cut_traces::{cut_line, row_damage_lines};
use crate::run_findings::FoundRank;
use crate::{notes, table};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::RecordingContent;
use etlink_link::ranks::RankSummary;
use etlink_model::{Anomalies, GlobalRank};
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
    pub(super) notes: Vec<String>,
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
    pub(super) notes: Vec<String>,
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

    pub(super) fn notes_of(&self) -> Vec<String> {
        let of_ranks = self.ranks.iter().flat_map(|rank| {
            let name = self.name_of(rank);
            rank.notes
                .iter()
                .map(move |note| (name.clone(), note.as_str()))
        });
        let mut all = self.notes.clone();
        all.extend(table::same_notes(of_ranks));
        if notes::is_verbose() {
            for rank in &self.ranks {
                let name = self.name_of(rank);
                let infos = table::infos(&rank.anomalies).into_iter();
                all.extend(infos.map(|note| match &name[..] {
                    "" => note,
                    name => format!("{name}: {note}"),
                }));
            }
        }
        all
    }

    /// Returns lines about defects of device rows, printed before all figures.
    pub(super) fn row_damage_lines(&self) -> String {
        let ranks = self.ranks.iter();
        let ranks = ranks.map(|rank| (rank.label.as_str(), &rank.anomalies));
        row_damage_lines(ranks, self.ranks.len() + self.excluded.len() == 1)
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
        let is_only_trace = self.ranks.len() + self.excluded.len() == 1;
        cut_line(&labels, is_only_trace)
    }

    /// Returns the name of a rank for notes; empty for a single trace, which needs none.
    fn name_of(&self, rank: &Ranked<T>) -> String {
        if self.ranks.len() + self.excluded.len() > 1 {
            table::rank(&rank.label)
        } else {
            String::new()
        }
    }
}
