//! Simulated and measured communications of each rank, to be drawn one above the other.

use super::comms::SimulatedRun;
use super::measured::MeasuredRun;
use super::report::SimulationReport;

/// Communications of one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSpans {
    /// Number of the rank.
    pub rank: i64,
    /// True if simulated, false if measured.
    pub is_simulated: bool,
    /// Time from the first start of a rank to this rank's end, in nanoseconds.
    pub end_ns: i64,
    /// Communications in order of time.
    pub spans: Vec<CommSpan>,
}

/// A communication from the rank's arrival to its end, in nanoseconds from the first start of a
/// rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommSpan {
    /// Start of the communication.
    pub start_ns: i64,
    /// End of the communication.
    pub end_ns: i64,
    /// Kind and participants.
    pub name: String,
}

/// Returns, for each rank, the measured communications, if known, followed by the simulated ones.
/// O(n log n).
pub fn communication_spans(
    report: &SimulationReport,
    run: &SimulatedRun,
    measured: Option<&MeasuredRun>,
) -> Vec<RankSpans> {
    let mut all = vec![];
    for rank in &report.ranks {
        if let (Some(measured), Some(end_ns)) = (measured, rank.measured_ns) {
            let spans = measured_spans(measured, rank.rank);
            all.push(RankSpans::new(rank.rank, false, end_ns, spans));
        }
        if let Some(end_ns) = rank.simulated_ns {
            let comms = run.ranks.get(&rank.rank).into_iter();
            let mut spans = vec![];
            for comm in comms.flat_map(|graph| &graph.comms) {
                spans.extend(comm.members.iter().filter_map(|member| {
                    Some(CommSpan {
                        start_ns: member.arrives_ns,
                        end_ns: member.ends_ns?,
                        name: format!("{}, {}", comm.kind, comm.between.describe()),
                    })
                }));
            }
            all.push(RankSpans::new(rank.rank, true, end_ns, spans));
        }
    }
    all
}

/// Returns the measured communications of a rank.
pub(super) fn measured_spans(measured: &MeasuredRun, rank: i64) -> Vec<CommSpan> {
    let mut spans = vec![];
    for comm in &measured.comms {
        let own = comm.members.iter().filter(|member| member.rank == rank);
        spans.extend(own.map(|member| CommSpan {
            start_ns: member.arrives_ns,
            end_ns: member.ends_ns.unwrap_or(member.arrives_ns),
            name: format!("{}, {}", comm.kind, comm.between.describe()),
        }));
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
