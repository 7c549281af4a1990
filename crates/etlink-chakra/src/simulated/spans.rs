//! When each rank communicates, simulated and measured, to be drawn one above the other.

use super::comms::SimulatedRun;
use super::measured::MeasuredRun;
use super::report::SimulationReport;

/// A rank's communications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSpans {
    /// Its number.
    pub rank: i64,
    /// Whether it was simulated, and not measured.
    pub is_simulated: bool,
    /// From the first begin of a rank to its end, ns.
    pub end_ns: i64,
    /// In order of time.
    pub spans: Vec<CommSpan>,
}

/// One of them: from the rank's arrival to its end, ns from the first begin of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommSpan {
    /// When it begins.
    pub start_ns: i64,
    /// When it ends.
    pub end_ns: i64,
    /// What it is, and between whom.
    pub name: String,
}

/// Of each rank what was measured, if that is known, then what was simulated. O(n log n).
pub fn communication_spans(
    report: &SimulationReport,
    run: &SimulatedRun,
    measured: Option<&MeasuredRun>,
) -> Vec<RankSpans> {
    let mut all = vec![];
    for rank in &report.ranks {
        if let (Some(measured), Some(end_ns)) = (measured, rank.measured_ns) {
            all.push(RankSpans::new(
                rank.rank,
                false,
                end_ns,
                measured_spans(measured, rank.rank),
            ));
        }
        let comms = run.ranks.get(&rank.rank).into_iter();
        let spans = comms.flat_map(|graph| &graph.comms).filter_map(|comm| {
            Some(CommSpan {
                start_ns: comm.start_ns,
                end_ns: comm.end_ns?,
                name: format!("{}, {}", comm.kind, comm.between.describe()),
            })
        });
        if let Some(end_ns) = rank.simulated_ns {
            all.push(RankSpans::new(rank.rank, true, end_ns, spans.collect()));
        }
    }
    all
}

fn measured_spans(measured: &MeasuredRun, rank: i64) -> Vec<CommSpan> {
    let mut spans = vec![];
    for comm in &measured.comms {
        for member in comm.members.iter().filter(|member| member.rank == rank) {
            spans.push(CommSpan {
                start_ns: member.arrives_ns,
                end_ns: member.ends_ns.unwrap_or(member.arrives_ns),
                name: format!("{}, {}", comm.kind, comm.between.describe()),
            });
        }
    }
    spans
}

impl RankSpans {
    fn new(rank: i64, is_simulated: bool, end_ns: i64, mut spans: Vec<CommSpan>) -> RankSpans {
        spans.sort_by_key(|span| span.start_ns);
        RankSpans {
            rank,
            is_simulated,
            end_ns,
            spans,
        }
    }
}
