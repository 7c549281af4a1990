//! What `ranks` prints, as tables.

use super::waits::RankUtilization;
use super::{NotCompared, RanksReport, compare_runs};
use crate::record_tables::records_table;
use crate::run_query::RunQuery;
use anyhow::{Result, bail};
use arrow_array::RecordBatch;
use etlink_link::ranks::{
    CollectiveSkew, JoinProblem, JoinProblemKind, RankClock, StepStragglers, StragglerStats,
};
use etlink_run::phases::Phased;
use etlink_run::{Excluded, RunError};

/// How the ranks of a run met.
pub struct RanksDocument(RanksReport);

impl RanksDocument {
    /// The names of its tables: those of the lists that `--json` has.
    pub const TABLES: [&str; 7] = [
        "clocks",
        "ranks",
        "utilization",
        "steps",
        "problems",
        "not_compared",
        "collectives",
    ];

    /// Reads a run and compares its ranks.
    ///
    /// # Errors
    /// Its traces cannot be found.
    pub fn read(run: &RunQuery) -> Result<RanksDocument> {
        RanksDocument::read_phase(run)?.whole()
    }

    /// The same in the phase that the query names.
    ///
    /// # Errors
    /// Its traces cannot be found, or an earlier phase is missing or was run otherwise.
    pub fn read_phase(run: &RunQuery) -> Result<Phased<RanksDocument>> {
        let compared = compare_runs(run.source.clone(), run.options.clone())?;
        // whoever asks has opened one run
        compared.and_then(|mut compared| {
            Ok(RanksDocument(compared.pop().ok_or(RunError::NoRankAsked)?))
        })
    }

    /// What is odd about the files and in them, and which are left out.
    pub fn notes(&self) -> Vec<String> {
        let excluded = self.0.excluded.iter().map(Excluded::note);
        self.0.notes.iter().cloned().chain(excluded).collect()
    }

    /// One of its tables.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn table(&self, name: &str) -> Result<RecordBatch> {
        let report = &self.0;
        match name {
            "clocks" => records_table(Some(&RankClock::default()), &report.clocks),
            "ranks" => records_table(Some(&StragglerStats::default()), &report.ranks),
            "utilization" => records_table(Some(&RankUtilization::default()), &report.utilization),
            "steps" => records_table(Some(&StepStragglers::default()), &report.steps),
            "problems" => records_table(Some(&blank_problem()), &report.problems),
            "not_compared" => records_table(Some(&NotCompared::default()), &report.not_compared),
            "collectives" => records_table(Some(&CollectiveSkew::default()), &report.collectives),
            _ => bail!("ranks has no table {name}"),
        }
    }
}

/// Names the columns: of any kind, because nothing of its values is taken.
fn blank_problem() -> JoinProblem {
    JoinProblem {
        kind: JoinProblemKind::GlooUnrecorded,
        count: 0,
        examples: vec![],
    }
}
