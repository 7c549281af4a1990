//! What was said of the traces of a run.

use crate::table;
use etlink_link::ranks::{RankSummary, select_run};
use etlink_model::Anomalies;
use etlink_run::run::{Belongs, belong};
use serde::Serialize;
use std::path::Path;

/// One run: what was said of each of its ranks.
#[derive(Serialize)]
pub(super) struct Told<T> {
    /// Folder of the run, empty for a file.
    pub(super) run: String,
    /// What is to be known of the files.
    pub(super) notes: Vec<String>,
    /// Each rank.
    pub(super) ranks: Vec<Ranked<T>>,
    /// Traces that could not be linked, or are not of the run.
    pub(super) left_out: Vec<Stray>,
    /// Ranks of the run of which nothing is told here.
    pub(super) absent: Vec<i64>,
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
    #[serde(flatten)]
    pub(super) said: T,
    /// What it did with the others.
    #[serde(skip)]
    pub(super) facts: Option<RankSummary>,
}

#[derive(Serialize)]
pub(super) struct Stray {
    pub(super) label: String,
    pub(super) error: String,
}

impl<T> Told<T> {
    /// Of nothing yet.
    pub(super) fn new(run: &Path) -> Told<T> {
        Told {
            run: run.display().to_string(),
            notes: vec![],
            ranks: vec![],
            left_out: vec![],
            absent: vec![],
        }
    }

    pub(super) fn leave_out(&mut self, label: &str, error: String) {
        self.left_out.push(Stray {
            label: label.to_owned(),
            error,
        });
    }

    /// Leaves out what is not of the run of most; with `force` a note names it.
    pub(super) fn keep_company(&mut self, force: bool) {
        let facts: Vec<Option<RankSummary>> =
            self.ranks.iter().map(|rank| rank.facts.clone()).collect();
        for (rank, belongs) in std::mem::take(&mut self.ranks)
            .into_iter()
            .zip(belong(&facts, force))
        {
            match belongs {
                Belongs::No(why) => {
                    self.leave_out(&rank.label, why);
                    continue;
                }
                Belongs::Forced(why) => self
                    .notes
                    .push(format!("{}: {why}", table::rank(&rank.label))),
                Belongs::Yes => {}
            }
            self.ranks.push(rank);
        }
        let kept: Vec<RankSummary> = self
            .ranks
            .iter()
            .filter_map(|rank| rank.facts.clone())
            .collect();
        self.absent = select_run(&kept, true).absent;
    }

    /// What people should know first.
    pub(super) fn said_first(&self) -> String {
        let several = self.ranks.len() + self.left_out.len() > 1;
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
        let left_out = self
            .left_out
            .iter()
            .map(|stray| format!("{} is left out: {}", table::rank(&stray.label), stray.error));
        let notes = self
            .notes
            .iter()
            .cloned()
            .chain(table::same_notes(of_ranks))
            .chain(left_out);
        let run = if self.run.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.run)
        };
        notes
            .map(|note| table::note(&format!("{run}{note}")))
            .collect()
    }
}
