//! Coverage of a join: the share of communications that are matched across ranks.

use super::JoinedRun;
use crate::text::{self, first_ranks};
use etlink_link::ranks::{CommChannel, GroupIdentity, Peers, RankSummary, unmatched_reason};
use etlink_model::{Diagnostic, GlobalRank, counted_text, diagnostic};

/// Share of joined communications below which figures on waits only describe a part of the run.
const MOST: f64 = 0.9;

/// Numbers of communications, counted once per participating rank (side). Communications with ranks
/// without a trace here are not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinCoverage {
    /// Number of all sides.
    pub sides: u64,
    /// Number of sides that are joined with all other ranks of their group.
    pub joined: u64,
    /// Number of joined sides without a record, joined by their order and ends.
    pub inferred: u64,
    /// Ranks that communicate, but have no joined side.
    pub alone: Vec<GlobalRank>,
}

impl JoinCoverage {
    /// Counts the sides of joined ranks. O(sides).
    pub fn of_run(run: &JoinedRun) -> JoinCoverage {
        let mut coverage = JoinCoverage::default();
        let ranks = run.summaries.len();
        let (mut joined, mut absent) = (vec![0u64; ranks], vec![0u64; ranks]);
        for matched in &run.matches.matches {
            let is_inferred = match matched.channel {
                CommChannel::Group(group) => run.matches.inferred.contains(&group),
                CommChannel::Message { .. } => false,
            };
            for member in &matched.members {
                let at = member.rank.index();
                if !matched.is_shared() || !matched.outside.is_empty() {
                    absent[at] += 1;
                } else if matched.is_whole() && matched.members.len() > 1 {
                    joined[at] += 1;
                    coverage.inferred += u64::from(is_inferred);
                }
            }
        }
        for (at, summary) in run.summaries.iter().enumerate() {
            let sides = sides_of(summary).saturating_sub(absent[at]);
            coverage.sides += sides;
            coverage.joined += joined[at];
            if sides > 0 && joined[at] == 0 {
                coverage.alone.push(summary.rank);
            }
        }
        coverage
    }

    /// Returns a note on the share of joined sides; `None` if all are joined by their records.
    pub fn note(&self, run: &JoinedRun) -> Option<Diagnostic> {
        if run.summaries.len() < 2 {
            let kernels = run.summaries.first()?.unrecorded.len();
            return (kernels > 0).then(|| {
                diagnostic!(
                    JoinIncomplete,
                    "communication kernels without a record of their group and size: {kernels}"
                )
            });
        }
        let is_plain = self.joined == self.sides && self.inferred == 0;
        if is_plain || self.sides == 0 {
            return None;
        }
        let mut note = format!(
            "{} of {} communications are joined with other ranks",
            self.joined, self.sides
        );
        if self.inferred > 0 {
            note += &format!(
                " ({} of them have no record and are joined by order and end time: inferred, sizes \
                 unknown)",
                self.inferred
            );
        }
        let problems = run.matches.problems.iter();
        for problem in problems.filter(|one| one.kind.prevents_join()) {
            note += &format!("; {}", counted_text(problem.count, problem.kind.describe()));
        }
        if let Some(reason) = unmatched_reason(&run.summaries) {
            let left = run.summaries.iter().map(|summary| summary.unrecorded.len());
            let left = left.sum::<usize>() as u64;
            let kernels = text::count(left, "communication kernel");
            note += &format!("; {kernels} without a record: {}", reason.describe());
        }
        if self.alone.len() == run.summaries.len() {
            note += ": each rank is replayed alone, and waits between ranks are unknown";
        } else if !self.alone.is_empty() {
            note += &format!(
                "; rank {} is replayed alone: no waits for it are visible",
                first_ranks(&self.alone)
            );
        } else if (self.joined as f64) < MOST * self.sides as f64 {
            note += ": waits between ranks are known for these communications only";
        }
        Some(diagnostic!(JoinIncomplete, "{note}"))
    }
}

/// Returns the number of a rank's communications with others.
fn sides_of(summary: &RankSummary) -> u64 {
    let communications = summary.communications.iter();
    let with_others = communications.filter(|own| match own.peers {
        Peers::Group(group) => !matches!(
            summary.groups.get(group.index()),
            Some(GroupIdentity::Ranks(ranks)) if ranks.len() < 2
        ),
        Peers::Peer(_) => true,
    });
    let unrecorded = summary.unrecorded.len() as u64;
    (with_others.count() as u64)
        .saturating_add(unrecorded)
        .saturating_add(summary.unrecorded_gloo)
}
