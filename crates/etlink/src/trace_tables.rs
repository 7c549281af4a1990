//! The linked traces of a run, kept in memory as a source of tables.

use crate::rank_error::rank_error;
use crate::run_query::RunQuery;
use anyhow::{Result, bail};
use etlink_link::LinkedTrace;
use etlink_model::{Diagnostic, KeepEvents};
use etlink_replay::{ReplaySettings, graph_from_trace, node_slack, run_graph};
use etlink_run::memory::RankOperation;
use etlink_run::run::{RankEntry, RankResult, RunOptions, RunSet};
use etlink_run::{Overhead, RunError};
use etlink_tables::{GraphTimes, RankTrace, TraceTable, TraceTableReader};
use std::sync::Arc;

/// The linked traces of a run's ranks: the tables of `analyze --parquet` as streams of batches.
pub struct TraceDocument {
    ranks: Vec<RankTrace>,
    diagnostics: Vec<Diagnostic>,
}

impl TraceDocument {
    /// Reads and links a run. The traces stay in memory until this is dropped.
    ///
    /// # Errors
    /// No rank could be linked, they do not fit into memory together, or they are written graphs.
    pub fn read(run: &RunQuery) -> Result<TraceDocument> {
        let options = RunOptions {
            // Tensor edges are found as in `analyze --parquet`, so that both have the same edges.
            keep: KeepEvents::Memory,
            work: RankOperation::Analyze,
            overhead: Some(Overhead::Keep),
            ..run.options.clone()
        };
        let runs = RunSet::open(run.source.clone(), options)?;
        if runs.runs.iter().any(|run| run.is_written()) {
            bail!(
                "{}: written graphs have no tables of events, nodes, edges and collectives; give recorded \
                traces",
                runs.source_name()
            );
        }
        let results = runs.map_ranks_retaining(|rank| {
            // a linked trace occupies less than reading it took
            let bytes = match runs.len() {
                1 => 0,
                _ => rank.memory_bytes(),
            };
            (link_rank(rank).transpose(), bytes)
        })?;
        let errors = |linked: Result<_, _>| linked.map_err(rank_error);
        let results = results.into_iter().map(|rank| rank.map(errors)).collect();
        let mut document = TraceDocument {
            ranks: vec![],
            diagnostics: vec![],
        };
        for run in runs.collect_runs(results, false)? {
            if run.members.ranks.is_empty() {
                let errors = run.failed.into_iter().map(|(_, error)| error);
                return Err(RunError::no_trace_taken(errors.collect()).into());
            }
            document.diagnostics.extend(runs.run_diagnostics(&run));
            let members = run.members.ranks.into_iter();
            document.ranks.extend(members.map(|rank| rank.value));
        }
        Ok(document)
    }

    /// Returns notes about the traces, including excluded ones.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns one of the tables, with all ranks.
    ///
    /// # Errors
    /// A trace has more events than the tables can number.
    pub fn table(&self, table: TraceTable) -> Result<TraceTableReader> {
        Ok(TraceTableReader::new(table, self.ranks.clone())?)
    }
}

/// Links a rank; `None` if it was not requested.
fn link_rank(entry: RankEntry<'_>) -> Result<Option<RankResult<RankTrace>>> {
    // otherwise an unrequested rank would report an error
    if entry.has_no_times() && !entry.is_wanted(None) {
        return Ok(None);
    }
    let linked = entry.link()?.refuse_damage()?;
    let stated = linked.report.report.rank;
    if !entry.is_wanted(stated) {
        return Ok(None);
    }
    let notes = linked.diagnostics();
    // discovery has settled whether to trust the file name or the trace
    let rank = entry.files().rank.or(stated.map(|rank| rank.0));
    let is_one_rank = entry.set.source.is_one_rank();
    Ok(Some(RankResult {
        label: entry.label().to_owned(),
        // a single rank is not compared with others
        summary: if !is_one_rank { linked.summary } else { None },
        diagnostics: notes,
        value: RankTrace {
            rank,
            times: Arc::new(graph_times(&linked.trace)?),
            trace: Arc::new(linked.trace),
        },
    }))
}

/// Returns the edge latencies and node slacks from a replay of the rank.
///
/// # Errors
/// Never fails for a trace that the linker made.
pub(crate) fn graph_times(trace: &LinkedTrace) -> Result<GraphTimes> {
    // The graph takes as much memory as the linked trace, and is freed before any table is made.
    let graph = graph_from_trace(trace)?;
    let nodes = graph.indices();
    let edges = nodes.flat_map(|node| graph.edges_to(node));
    let run = run_graph(&graph, trace, &ReplaySettings::default());
    Ok(GraphTimes {
        edge_latency: edges.map(|edge| graph.latency(edge)).collect(),
        node_slack: node_slack(&graph, &run),
    })
}
