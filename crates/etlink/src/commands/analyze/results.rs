//! What was said of the traces of a run.

use super::card::CardFacts;
use super::chakra::RankForm;
use crate::cut_traces::{cut_line, row_damage_lines};
use crate::run_findings::FoundRank;
use crate::{notes, table};
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::ranks::RankSummary;
use etlink_model::{Anomalies, GlobalRank};
use etlink_run::measurements::RunMeasurements;
use etlink_run::membership::Excluded;
use serde::Serialize;
use std::path::Path;

/// Of what a trace is.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(feature = "parquet"),
    allow(dead_code, reason = "only tables are named by run and label")
)]
pub(super) struct AnalyzedTrace<'a> {
    /// Folder of the run, empty for a file.
    pub(super) run: &'a Path,
    /// As in [`Ranked`].
    pub(super) label: &'a str,
    /// The rank that the file's name tells.
    pub(super) rank: Option<i64>,
    /// Whether it is a written graph.
    pub(super) written: bool,
}

/// One run: what was said of each of its ranks.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AnalyzedRun<T> {
    /// Folder of the run, empty for a file.
    pub(super) run: String,
    /// What it is called in text: as its folder, or as the source where it lies there beside others.
    #[serde(skip)]
    pub(super) name: String,
    /// What is to be known of the files.
    pub(super) notes: Vec<String>,
    /// Each rank.
    pub(super) ranks: Vec<Ranked<T>>,
    /// Traces that could not be linked, or are not of the run.
    pub(super) excluded: Vec<Excluded>,
    /// Ranks of the run of which nothing is told here.
    pub(super) absent: Vec<GlobalRank>,
    /// What was measured beside the traces.
    #[serde(skip)]
    pub(super) measured: RunMeasurements,
}

#[derive(Serialize, BorshSerialize, BorshDeserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Ranked<T> {
    /// What the rank is called: its number, or the name of its file.
    pub(super) label: String,
    /// Its device trace.
    pub(super) device_trace: String,
    /// Its host trace.
    pub(super) host_trace: Option<String>,
    /// What is to be known of its traces.
    pub(super) notes: Vec<String>,
    /// What was wrong in them.
    pub(super) anomalies: Anomalies,
    /// What it was read from.
    #[serde(skip)]
    pub(super) form: RankForm,
    /// Its device trace ends before its recording did.
    #[serde(skip)]
    pub(super) is_cut: bool,
    #[serde(flatten)]
    pub(super) said: T,
    /// What it has in common with the others.
    #[serde(skip)]
    #[borsh(skip)]
    pub(super) summary: Option<RankSummary>,
    /// What its traces say for a workload card.
    #[serde(skip)]
    pub(super) card: CardFacts,
    /// What may cost it time, where that is asked for.
    #[serde(skip)]
    pub(super) found: Option<FoundRank>,
}

impl<T> AnalyzedRun<T> {
    /// What people should know first, of all runs.
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

    /// What is wrong with device rows, before all figures.
    pub(super) fn row_damage_lines(&self) -> String {
        let ranks = self.ranks.iter();
        let ranks = ranks.map(|rank| (rank.label.as_str(), &rank.anomalies));
        row_damage_lines(ranks, self.ranks.len() + self.excluded.len() == 1)
    }

    /// What its figures lack: a line, where device traces are cut.
    pub(super) fn cut_line(&self) -> String {
        let cut = self.ranks.iter().filter(|rank| rank.is_cut);
        let labels: Vec<&str> = cut.map(|rank| rank.label.as_str()).collect();
        let is_only_trace = self.ranks.len() + self.excluded.len() == 1;
        cut_line(&labels, is_only_trace)
    }

    /// What a rank is called in notes. Of a single trace you know which one is meant.
    fn name_of(&self, rank: &Ranked<T>) -> String {
        if self.ranks.len() + self.excluded.len() > 1 {
            table::rank(&rank.label)
        } else {
            String::new()
        }
    }
}
