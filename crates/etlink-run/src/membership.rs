//! Selects the traces of one run, and states reasons for excluding others.
//!
//! Folders may contain leftovers. The properties shared by most traces define the run. Every other
//! trace is [`Excluded`] with its name and a reason, and the remaining ones are processed.

use crate::error::RunError;
use crate::joined::JoinedRun;
use crate::text;
use etlink_link::ranks::{ExcludeReason, RankSummary, select_run};
use etlink_model::{Diagnostic, Failure, GlobalRank, Setting, diagnostic};
use serde::Serialize;

/// A trace that is excluded from the results of its run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Excluded {
    /// Rank, or the file name if ranks do not distinguish the files.
    pub label: String,
    /// Reason, for programs.
    pub reason: Exclusion,
    /// Reason, for people.
    pub message: String,
}

/// Reason for excluding a trace from the results of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// The trace could not be read or linked.
    Unreadable,
    /// The trace is damaged, and damaged traces were to be refused.
    Damaged,
    /// The device trace is truncated and lacks collectives that others have with it.
    Cut,
    /// Neither the name nor the content of the trace determines its rank.
    RankUnknown,
    /// The trace is of another run.
    // untagged: JSON has a single list of reasons, regardless of the part of etlink that found them
    #[serde(untagged)]
    OtherRun(ExcludeReason),
}

impl Excluded {
    /// Creates the exclusion for an error, with the whole chain of causes as the message.
    pub fn from_error(label: &str, error: &RunError) -> Excluded {
        let reason = if error.is_refused() {
            Exclusion::Damaged
        } else {
            Exclusion::Unreadable
        };
        Excluded {
            label: label.to_owned(),
            reason,
            message: text::error_chain(error),
        }
    }

    /// Creates the exclusion of one of [`JoinedRun::cut_ranks`].
    fn cut(label: &str) -> Excluded {
        Excluded {
            label: label.to_owned(),
            reason: Exclusion::Cut,
            message:
                "its device trace is truncated and lacks collectives that other ranks have with it"
                    .to_owned(),
        }
    }

    fn rank_unknown(label: &str) -> Excluded {
        Excluded {
            label: label.to_owned(),
            reason: Exclusion::RankUnknown,
            message: "its rank is uncertain".to_owned(),
        }
    }

    fn other_run(label: &str, reason: ExcludeReason) -> Excluded {
        Excluded {
            label: label.to_owned(),
            reason: Exclusion::OtherRun(reason),
            message: reason.describe(),
        }
    }

    /// Returns the exclusion as a diagnostic.
    pub fn diagnostic(&self) -> Diagnostic {
        let rank = text::rank(&self.label);
        let left_out = diagnostic!(RankLeftOut, "{rank} is left out: {}", self.message);
        let left_out = left_out.of_label(&self.label);
        if self.can_be_allowed() {
            left_out.advise(format!("{} includes it", Setting::AllowMismatch))
        } else {
            left_out
        }
    }

    /// Returns true if `--allow-mismatch` can include the trace.
    fn can_be_allowed(&self) -> bool {
        match self.reason {
            // two traces of one rank can never both be joined, nor a trace with itself
            Exclusion::OtherRun(reason) => !matches!(
                reason,
                ExcludeReason::SameRank | ExcludeReason::SameTrace { .. }
            ),
            Exclusion::Cut => true,
            Exclusion::Unreadable | Exclusion::Damaged | Exclusion::RankUnknown => false,
        }
    }

    /// Returns the fact that the trace was included despite the mismatch.
    pub fn mismatch(&self) -> Diagnostic {
        diagnostic!(
            RankMismatch,
            "{}: included by {}: {}",
            text::rank(&self.label),
            Setting::AllowMismatch,
            self.message
        )
        .of_label(&self.label)
    }
}

/// Properties of a trace for the selection.
pub trait RunMember {
    /// Returns the rank, or the name of the file.
    fn label(&self) -> &str;
    /// Returns the summary of the trace; `None` if its rank is uncertain.
    fn summary(&self) -> Option<&RankSummary>;
}

/// Strictness of the selection.
#[derive(Clone, Copy, Debug)]
pub struct MembershipRule {
    /// True to include mismatching traces, except second traces of a rank, or a trace of two ranks.
    pub allow_mismatch: bool,
    /// True if results are of the joined ranks, so that a trace of unknown rank and one of
    /// [`JoinedRun::cut_ranks`] is always excluded. Otherwise the former is excluded only if other
    /// traces have ranks.
    pub needs_rank: bool,
}

/// Traces of one run.
#[derive(Debug)]
pub struct Members<T> {
    /// Traces that belong to the run, in their order.
    pub ranks: Vec<T>,
    /// Traces that do not belong to the run.
    pub excluded: Vec<Excluded>,
    /// Traces that were included despite a mismatch, with the reasons against them.
    pub mismatches: Vec<Excluded>,
    /// Number of ranks of the run, as stated by most traces.
    pub world_size: Option<i64>,
    /// Ranks of the run without a trace here, ascending; the first 1024.
    pub absent: Vec<GlobalRank>,
}

impl<T: RunMember> Members<T> {
    /// Selects the traces that belong to one run.
    pub fn select(ranks: Vec<T>, rule: MembershipRule) -> Members<T> {
        let summaries: Vec<&RankSummary> = ranks.iter().filter_map(RunMember::summary).collect();
        // both: traces included by --allow-mismatch are reported with the reason against them
        let fitting = select_run(&summaries, false);
        let allowed = select_run(&summaries, true);
        // if no trace has a rank, nothing is joined, and none must be excluded
        let alone = summaries.is_empty();
        let selection = if rule.allow_mismatch {
            &allowed
        } else {
            &fitting
        };
        let mut members = Members {
            ranks: Vec::with_capacity(ranks.len()),
            excluded: vec![],
            mismatches: vec![],
            world_size: selection.world_size,
            absent: selection.absent.clone(),
        };
        let mut known = 0;
        for rank in ranks {
            let label = rank.label();
            if rank.summary().is_none() {
                let unknown = Excluded::rank_unknown(label);
                if rule.needs_rank || !alone && !rule.allow_mismatch {
                    members.excluded.push(unknown);
                    continue;
                }
                if !alone {
                    members.mismatches.push(unknown);
                }
                members.ranks.push(rank);
                continue;
            }
            let excluded = selection.excluded[known];
            let misfit = fitting.excluded[known];
            // verdicts exist for summaries only, not for all ranks
            known += 1;
            if let Some(reason) = excluded {
                members.excluded.push(Excluded::other_run(label, reason));
                continue;
            }
            if let Some(reason) = misfit {
                members.mismatches.push(Excluded::other_run(label, reason));
            }
            members.ranks.push(rank);
        }
        if rule.needs_rank {
            members.leave_out_cut(rule.allow_mismatch);
        }
        members
    }

    /// Excludes [`JoinedRun::cut_ranks`], or notes their mismatch if it is allowed.
    fn leave_out_cut(&mut self, allow_mismatch: bool) {
        let summaries: Vec<_> = self.ranks.iter().filter_map(RunMember::summary).collect();
        // before a join that most runs do not need
        if summaries.len() < 2 || summaries.iter().all(|summary| !summary.is_cut) {
            return;
        }
        let joined = JoinedRun::new(summaries.into_iter().cloned().collect(), false);
        let mut is_cut = joined.cut_ranks().into_iter();
        let mut cut = vec![];
        self.ranks.retain(|rank| {
            let is_cut = is_cut.next().unwrap_or(false);
            if is_cut {
                cut.push(Excluded::cut(rank.label()));
            }
            allow_mismatch || !is_cut
        });
        if allow_mismatch {
            self.mismatches.extend(cut);
        } else {
            self.excluded.extend(cut);
        }
    }
}

/// Creates the error for a source without usable traces: the errors of unreadable traces, or else
/// the reason for the first exclusion.
pub fn nothing_taken(errors: Vec<RunError>, excluded: &[Excluded]) -> RunError {
    match excluded.first() {
        Some(first) if errors.is_empty() => {
            Failure::new(format!("no rank can be used: {}", first.message)).into()
        }
        _ => RunError::no_trace_taken(errors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rank(&'static str, Option<RankSummary>);

    impl RunMember for Rank {
        fn label(&self) -> &str {
            self.0
        }

        fn summary(&self) -> Option<&RankSummary> {
            self.1.as_ref()
        }
    }

    fn rank(label: &'static str, rank: i64, world_size: i64) -> Rank {
        let summary = RankSummary {
            rank: GlobalRank(rank),
            world_size: Some(world_size),
            ..RankSummary::default()
        };
        Rank(label, Some(summary))
    }

    fn select(rule: MembershipRule) -> Members<Rank> {
        let ranks = vec![
            rank("0", 0, 4),
            rank("1", 1, 4),
            rank("2", 2, 8),
            rank("1-2", 1, 4),
            Rank("loose", None),
        ];
        Members::select(ranks, rule)
    }

    fn labels(excluded: &[Excluded]) -> Vec<&str> {
        excluded.iter().map(|one| one.label.as_str()).collect()
    }

    #[test]
    fn what_does_not_fit_is_excluded_with_a_reason() {
        let members = select(MembershipRule {
            allow_mismatch: false,
            needs_rank: false,
        });
        assert_eq!(members.ranks.len(), 2);
        assert_eq!(labels(&members.excluded), ["2", "1-2", "loose"]);
        assert_eq!(members.world_size, Some(4));
        assert_eq!(members.absent, [GlobalRank(2), GlobalRank(3)]);
        let json = serde_json::to_value(&members.excluded).expect("serializes");
        assert_eq!(json[0]["reason"]["world_size"]["own"], 8);
        assert_eq!(json[1]["reason"], "same_rank");
        assert_eq!(json[2]["reason"], "rank_unknown");
    }

    #[test]
    fn a_second_trace_of_a_rank_is_never_taken_in() {
        let members = select(MembershipRule {
            allow_mismatch: true,
            needs_rank: false,
        });
        assert_eq!(labels(&members.excluded), ["1-2"]);
        assert_eq!(labels(&members.mismatches), ["2", "loose"]);
        let numbered = select(MembershipRule {
            allow_mismatch: true,
            needs_rank: true,
        });
        assert_eq!(labels(&numbered.excluded), ["1-2", "loose"]);
    }
}
