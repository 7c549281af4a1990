//! Waits for ranks whose recordings began later: one call of many takes seconds, which says nothing
//! about the run.

use crate::analysis::RankAnalysis;
use crate::kernels::KernelTotals;
use crate::rules::RowClass;
use etlink_link::ranks::{RankSummary, StartSkewWait};

/// Leaves waits for ranks whose recordings began later out of the means and bandwidths of the
/// waiting ranks. `analyses` and `summaries` are of the same ranks, in the order of the join.
/// O(waits · names).
pub fn leave_out_start_skew<'a>(
    analyses: impl Iterator<Item = &'a mut RankAnalysis>,
    summaries: &[RankSummary],
    waits: &[StartSkewWait],
) {
    for (place, (analysis, summary)) in analyses.zip(summaries).enumerate() {
        for wait in waits.iter().filter(|wait| wait.rank.index() == place) {
            let step = summary.steps.get(wait.communication);
            let Some(one) = summary.communications.get(wait.communication.index()) else {
                continue;
            };
            // the tables leave out work that no step launched
            if step.is_none() && !summary.steps.all.is_empty() {
                continue;
            }
            let name = summary.names.get(one.name);
            let mut kernels = analysis.kernels.iter_mut();
            let is_its = |kernel: &&mut KernelTotals| {
                kernel.class == RowClass::Communication && kernel.name == name
            };
            if let Some(kernel) = kernels.find(is_its) {
                let whole_ns = one.end_ns.since(one.start_ns);
                kernel.durations.leave_out(whole_ns, wait.waits_ns);
            }
            let all = &mut analysis.collectives;
            let own = all.iter().position(|totals| totals.has(one, summary));
            let own = own.or_else(|| all.iter().position(|totals| totals.has_bare(one, summary)));
            if let Some(own) = own {
                all[own].leave_out(one, wait.waits_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::CollectiveTotals;
    use etlink_link::ranks::{CommExtent, Communication, GroupIdentity, Peers};
    use etlink_model::{CollectiveKind, CommIdx, GroupIdx, NodeIdx, RankIdx, UnixNs};

    /// Returns the number of collectives left out of the rows for kernels without a record, and for
    /// ranks 0 and 1.
    fn left_out(identity: GroupIdentity, bytes: Option<u64>) -> [u64; 2] {
        let row = |group: &str| {
            let mut row = CollectiveTotals::default();
            (row.kind, row.group) = ("all_reduce".to_owned(), group.to_owned());
            row.on_device = true;
            row
        };
        let mut analysis = RankAnalysis {
            collectives: vec![row(""), row("ranks 0, 1")],
            ..RankAnalysis::default()
        };
        let (node, times) = (NodeIdx(0), (UnixNs(0), UnixNs(5_000)));
        let summary = RankSummary {
            groups: vec![identity],
            communications: vec![Communication {
                node,
                peers: Peers::Group(GroupIdx(0)),
                name: Default::default(),
                kind: CollectiveKind::AllReduce,
                dtype: Default::default(),
                in_split: Default::default(),
                in_bytes: bytes.unwrap_or(0),
                bytes: bytes.unwrap_or(0),
                is_sized: bytes.is_some(),
                seq: None,
                start_ns: times.0,
                end_ns: times.1,
                on_device: true,
                extent: CommExtent::from_node(node, times),
            }],
            ..RankSummary::default()
        };
        let wait = StartSkewWait {
            rank: RankIdx(0),
            communication: CommIdx(0),
            waits_ns: 4_000,
        };
        leave_out_start_skew([&mut analysis].into_iter(), &[summary], &[wait]);
        let rows = analysis.collectives;
        [rows[0].start_skew, rows[1].start_skew]
    }

    #[test]
    fn a_wait_is_left_out_of_the_row_that_counts_it() {
        let ranks = |all: [u64; 2]| all.into_iter().collect();
        let recorded = GroupIdentity::Ranks(ranks([0, 1]));
        assert_eq!(left_out(recorded, Some(8)), [0, 1]);
        // no row counts it
        let other = GroupIdentity::Ranks(ranks([0, 2]));
        assert_eq!(left_out(other, Some(8)), [0, 0]);
        let inferred = GroupIdentity::Inferred(ranks([0, 2]));
        assert_eq!(left_out(inferred, None), [1, 0]);
    }
}
