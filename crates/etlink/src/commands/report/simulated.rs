//! The part of the page about a simulation of its run.

use crate::simulation::read_simulation;
use anyhow::Result;
use etlink_chakra::simulated::{
    ComparedComm, ComparedKind, ComparedRank, RankSpans, communication_spans,
};
use etlink_model::KeepEvents;
use etlink_report::page::{
    SimulatedCommRow, SimulatedKindRow, SimulatedPart, SimulatedRankRow, SimulatedSpan,
    SimulatedTrack,
};
use etlink_run::RunOptions;
use etlink_run::simulated::{SimulationFiles, SimulationResult};
use std::path::Path;

/// Reads the simulation, and compares it with the recording that the page is about.
pub(super) fn simulated_part(
    files: SimulationFiles,
    recording: &Path,
    options: RunOptions,
) -> Result<SimulatedPart> {
    let options = RunOptions {
        keep: KeepEvents::Graph,
        ..options
    };
    // the page itself has the notes on the recording
    let (result, _) = read_simulation(files, Some((recording, options)), false)?;
    let report = &result.report;
    let spans = communication_spans(report, &result.run, result.measured.as_ref());
    let part = SimulatedPart {
        log: result.log.display().to_string(),
        sentences: sentences(&result),
        ranks: report.ranks.iter().map(rank_row).collect(),
        kinds: report.kinds.iter().map(kind_row).collect(),
        communications: report.communications.iter().map(comm_row).collect(),
        tracks: spans.into_iter().map(track).collect(),
        ..SimulatedPart::default()
    };
    Ok(part.shortened())
}

fn sentences(result: &SimulationResult) -> Vec<String> {
    let mut sentences = vec![];
    let changes = result.report.ranks.iter().filter_map(|rank| rank.change);
    let changes: Vec<f64> = changes.collect();
    let least = changes.iter().copied().reduce(f64::min);
    let most = changes.iter().copied().reduce(f64::max);
    if let Some((least, most)) = least.zip(most) {
        sentences.push(format!(
            "Simulated ranks take {:+.1} % to {:+.1} % more time than measured.",
            100.0 * least,
            100.0 * most
        ));
    }
    for stuck in &result.report.stuck {
        sentences.push(format!("Rank {} did not finish.", stuck.rank));
    }
    sentences.extend(result.diagnostics.iter().map(ToString::to_string));
    sentences
}

fn rank_row(rank: &ComparedRank) -> SimulatedRankRow {
    SimulatedRankRow {
        rank: rank.rank,
        simulated_ns: rank.simulated_ns,
        measured_ns: rank.measured_ns,
        change_share: rank.change,
        communication_ns: rank.communication_ns,
        measured_communication_ns: rank.measured_communication_ns,
        exposed_ns: rank.exposed_ns,
    }
}

fn kind_row(kind: &ComparedKind) -> SimulatedKindRow {
    let compared = |ns: i64| (kind.compared > 0).then_some(ns);
    SimulatedKindRow {
        kind: kind.kind.to_owned(),
        count: kind.count,
        simulated_ns: compared(kind.simulated_ns),
        measured_ns: compared(kind.measured_ns),
        change_share: kind.change,
        last_done_ns: compared(kind.last_done_ns),
        simulated_wait_ns: kind.simulated_wait_ns,
        measured_wait_ns: kind.measured_wait_ns,
    }
}

fn comm_row(comm: &ComparedComm) -> SimulatedCommRow {
    SimulatedCommRow {
        kind: comm.kind.to_owned(),
        between: comm.ranks.clone(),
        number: comm.number,
        bytes: comm.bytes,
        simulated_ns: comm.simulated_ns,
        measured_ns: comm.measured_ns,
        longer_ns: comm.longer_ns,
    }
}

fn track(rank: RankSpans) -> SimulatedTrack {
    let spans = rank.spans.into_iter().map(|span| SimulatedSpan {
        start_ns: span.start_ns,
        duration_ns: span.end_ns - span.start_ns,
        name: span.name,
    });
    SimulatedTrack {
        rank: rank.rank,
        simulated: rank.is_simulated,
        end_ns: rank.end_ns,
        spans: spans.collect(),
    }
}
