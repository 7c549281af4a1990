//! What was said of the traces of a run.

use crate::{notes, table};
use etlink_link::ranks::RankSummary;
use etlink_model::{Anomalies, GlobalRank};
use etlink_run::membership::Excluded;
use serde::Serialize;
use std::path::Path;

/// Of what a trace is.
#[derive(Clone, Copy)]
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
pub(super) struct AnalyzedRun<T> {
    /// Folder of the run, empty for a file.
    pub(super) run: String,
    /// What is to be known of the files.
    pub(super) notes: Vec<String>,
    /// Each rank.
    pub(super) ranks: Vec<Ranked<T>>,
    /// Traces that could not be linked, or are not of the run.
    pub(super) excluded: Vec<Excluded>,
    /// Ranks of the run of which nothing is told here.
    pub(super) absent: Vec<GlobalRank>,
}

#[derive(Serialize)]
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
    /// Whether it is of a written graph.
    #[serde(skip)]
    pub(super) written: bool,
    #[serde(flatten)]
    pub(super) said: T,
    /// What it has in common with the others.
    #[serde(skip)]
    pub(super) summary: Option<RankSummary>,
}

impl<T> AnalyzedRun<T> {
    /// What people should know first.
    pub(super) fn print_notes(&self) {
        // of a single trace everybody knows which one is meant
        let several = self.ranks.len() + self.excluded.len() > 1;
        let name = |rank: &Ranked<T>| {
            if several {
                table::rank(&rank.label)
            } else {
                String::new()
            }
        };
        let of_ranks = self.ranks.iter().flat_map(|rank| {
            rank.notes
                .iter()
                .map(move |note| (name(rank), note.as_str()))
        });
        let excluded = self.excluded.iter().map(Excluded::note);
        let all = self
            .notes
            .iter()
            .cloned()
            .chain(table::same_notes(of_ranks))
            .chain(excluded);
        let run = if self.run.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.run)
        };
        for note in all {
            notes::print_note(&format!("{run}{note}"));
        }
        if !notes::is_verbose() {
            return;
        }
        for rank in &self.ranks {
            for note in table::infos(&rank.anomalies) {
                notes::print_note(&format!("{run}{}: {note}", name(rank)));
            }
        }
    }
}
