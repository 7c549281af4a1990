//! The results of `replay`, as a value.

use super::config::ReplayConfig;
use super::{Replayed, ranks, replay_rank};
use crate::run_query::RunQuery;
use anyhow::{Context, Result, bail};
use etlink_replay::ReplaySettings;
use etlink_run::memory::RankOperation;
use etlink_run::{RunError, RunOptions};

/// Changes for a replay, as typed after `--scale` and `--what-if`.
#[derive(Clone, Debug, Default)]
pub struct ReplayQuery {
    /// Duration rules, such as `class=gemm 0.5`.
    pub scale: Vec<String>,
    /// Named questions, such as `no-sync`.
    pub what_if: Vec<String>,
    /// True to include the critical path.
    pub critical_path: bool,
}

/// Results of replaying a run.
pub struct ReplayDocument(Replayed);

impl ReplayDocument {
    /// Reads a run and replays it.
    ///
    /// # Errors
    /// A rule or a question is invalid, nothing has the name in a rule, or no rank of the run could
    /// be read.
    pub fn read(run: &RunQuery, query: &ReplayQuery) -> Result<ReplayDocument> {
        let config = replay_config(run, query)?;
        let progress = run.options.progress.clone();
        if config.is_folder() {
            let mut replayed = ranks::replay_runs(config, &progress)?;
            // the query opens exactly one run
            return Ok(ReplayDocument(replayed.pop().ok_or(RunError::NoRankAsked)?));
        }
        let is_strict = config.options.strict;
        match replay_rank(config, &progress)? {
            Some(replayed) => Ok(ReplayDocument(replayed)),
            None => {
                debug_assert!(is_strict, "only then damage is refused");
                bail!("not replayed, because it is damaged and strict is set")
            }
        }
    }

    /// Returns the nodes of the critical path, in order.
    ///
    /// # Errors
    /// The critical path was not requested.
    #[cfg(feature = "parquet")]
    pub fn path_table(&self) -> Result<arrow_array::RecordBatch> {
        use crate::record_tables::{count_from_epoch, records_table};

        let path = self.0.critical_path.as_ref();
        let path = path.context("the critical path was not requested")?;
        let mut steps = vec![];
        for step in &path.steps {
            let mut step = serde_json::to_value(step)?;
            count_from_epoch(&mut step, &["start_ns"], self.0.base_ns);
            steps.push(step);
        }
        records_table(None, &steps)
    }

    /// Returns the JSON that `--json` prints.
    ///
    /// # Errors
    /// Never fails because of the content.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(&self.0)?)
    }
}

fn replay_config(run: &RunQuery, query: &ReplayQuery) -> Result<ReplayConfig> {
    let mut scales = vec![];
    for rule in &query.scale {
        // the library's error contains only the reason
        scales.push(rule.parse().with_context(|| format!("scale {rule:?}"))?);
    }
    let mut questions = vec![];
    for question in &query.what_if {
        let parsed = question.parse();
        questions.push(parsed.map_err(|why| anyhow::anyhow!("what_if {question:?}: {why}"))?);
    }
    super::config::check_size_questions(&questions)?;
    Ok(ReplayConfig {
        source: run.source.clone(),
        options: RunOptions {
            keep: super::config::kept_events(&questions),
            work: RankOperation::Replay,
            ..run.options.clone()
        },
        settings: ReplaySettings {
            scales,
            ..ReplaySettings::default()
        },
        questions,
        asked: vec![],
        explain: None,
        critical_path: query.critical_path,
        target: None,
        json: true,
    })
}
