//! Which traces are of one run, and why others are not.
//!
//! Folders hold leftovers. What most traces have in common is the run; every other trace is
//! [`Excluded`] by name and with a reason, and the rest goes on.

use crate::error::RunError;
use crate::text;
use etlink_link::ranks::{ExcludeReason, RankSummary, select_run};
use etlink_model::{GlobalRank, command_only};
use serde::Serialize;

/// A trace that is not among the results of its run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Excluded {
    /// The rank, or the name of the file where ranks do not tell files apart.
    pub label: String,
    /// Why, for programs.
    pub reason: Exclusion,
    /// Why, for people.
    pub message: String,
}

/// Why a trace is not among the results of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Exclusion {
    /// It could not be read or linked.
    Unreadable,
    /// It is damaged, and damaged traces were to be refused.
    Damaged,
    /// Its device trace is cut and lacks what others have with it.
    Cut,
    /// Neither its name nor its content settles which rank it is of.
    RankUnknown,
    /// It is of another run.
    // flat: who reads JSON has one list of reasons, whichever part of etlink found them
    #[serde(untagged)]
    OtherRun(ExcludeReason),
}

impl Excluded {
    /// A trace that an error keeps out: the whole chain of causes is the message.
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

    /// A rank whose device trace is cut so that it lacks what others have with it: what it did not
    /// record cannot change, and would keep the others as they were.
    pub fn cut(label: &str) -> Excluded {
        Excluded {
            label: label.to_owned(),
            reason: Exclusion::Cut,
            message: "its device trace is cut and lacks collectives that others have with it"
                .to_owned(),
        }
    }

    fn rank_unknown(label: &str) -> Excluded {
        Excluded {
            label: label.to_owned(),
            reason: Exclusion::RankUnknown,
            message: "its rank is not sure".to_owned(),
        }
    }

    fn other_run(label: &str, reason: ExcludeReason) -> Excluded {
        Excluded {
            label: label.to_owned(),
            reason: Exclusion::OtherRun(reason),
            message: reason.describe(),
        }
    }

    /// A note for people.
    pub fn note(&self) -> String {
        let remedy = if self.can_be_allowed() {
            command_only(" (--allow-mismatch takes it in)".to_owned())
        } else {
            String::new()
        };
        let rank = text::rank(&self.label);
        format!("{rank} is left out: {}{remedy}", self.message)
    }

    /// Whether it could be taken in although it does not fit.
    pub fn can_be_allowed(&self) -> bool {
        match self.reason {
            // two traces of one rank cannot both be joined, whatever is allowed, and neither can one
            // trace be joined with itself
            Exclusion::OtherRun(reason) => !matches!(
                reason,
                ExcludeReason::SameRank | ExcludeReason::SameTrace { .. }
            ),
            Exclusion::Unreadable
            | Exclusion::Damaged
            | Exclusion::Cut
            | Exclusion::RankUnknown => false,
        }
    }

    /// A note on a trace that was taken in although it does not fit.
    pub fn mismatch_note(&self) -> String {
        format!(
            "{}: taken in by --allow-mismatch: {}",
            text::rank(&self.label),
            self.message
        )
    }
}

/// What the selection has to know of a trace.
pub trait RunMember {
    /// The rank, or the name of the file.
    fn label(&self) -> &str;
    /// What the trace has in common with others; `None` where its rank is not sure.
    fn summary(&self) -> Option<&RankSummary>;
}

/// How strict the selection is.
#[derive(Clone, Copy, Debug)]
pub struct MembershipRule {
    /// Take in what does not fit, but for a second trace of a rank and one trace under two ranks.
    pub allow_mismatch: bool,
    /// What is done with the ranks needs their numbers, so that a trace of an unknown rank is
    /// always excluded. Else it is where other traces have ranks.
    pub needs_rank: bool,
}

/// The traces of one run.
#[derive(Debug)]
pub struct Members<T> {
    /// Those that belong to the run, in their order.
    pub ranks: Vec<T>,
    /// Those that do not.
    pub excluded: Vec<Excluded>,
    /// Those that were taken in all the same, and why they should not.
    pub mismatches: Vec<Excluded>,
    /// Number of ranks of the run, as most traces state it.
    pub world_size: Option<i64>,
    /// Ranks of the run that have no trace here, ascending; the first 1024.
    pub absent: Vec<GlobalRank>,
}

impl<T: RunMember> Members<T> {
    /// Selects those of `ranks` that are of one run.
    pub fn select(ranks: Vec<T>, rule: MembershipRule) -> Members<T> {
        let summaries: Vec<&RankSummary> = ranks.iter().filter_map(RunMember::summary).collect();
        // both: what --allow-mismatch took in is named with the reason that it had not to
        let fitting = select_run(&summaries, false);
        let allowed = select_run(&summaries, true);
        // where no trace has a rank there is nothing to be joined with, and nobody to leave out
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
            // verdicts are listed for the summaries alone, not for all ranks
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
        members
    }
}

impl<T> Members<T> {
    /// Notes on the traces that were taken in although they do not fit.
    pub fn mismatch_notes(&self) -> impl Iterator<Item = String> {
        self.mismatches.iter().map(Excluded::mismatch_note)
    }
}

/// Why nothing can be reported of a source of which no trace could be taken: the errors of those
/// that could not be read, else why the first one was excluded.
pub fn nothing_taken(errors: Vec<RunError>, excluded: &[Excluded]) -> RunError {
    match excluded.first() {
        Some(first) if errors.is_empty() => RunError::AllExcluded {
            first: first.message.clone(),
        },
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
