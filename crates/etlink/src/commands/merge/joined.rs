//! The ranks of one run, joined.

use super::timeline::{Common, Written};
use super::{Known, Rank};
use crate::args::Merge;
use etlink_chakra::{RunAgreement, agree};
use etlink_link::ranks::{
    CommChannel, ExcludeReason, JoinProblem, RankClock, RankSummary, RunJoin, align_clocks,
    join_ranks, select_run, serialize_comms,
};
use etlink_run::job::RankContext;
use etlink_run::run::taken_in;
use serde::Serialize;
use std::collections::BTreeMap;

/// How the ranks of a run go together.
#[derive(Serialize)]
pub(super) struct Joined {
    /// Folder of the run.
    pub(super) run: String,
    /// Global ranks that were joined.
    pub(super) ranks: Vec<i64>,
    /// Number of ranks of the run, as most traces say it.
    pub(super) world_size: Option<i64>,
    /// Ranks of the run that have no trace here.
    pub(super) absent: Vec<i64>,
    /// Traces that are not of this run.
    pub(super) left_out: Vec<Stray>,
    /// Traces that are not of this run and were taken in by `--force`, and why they are not.
    pub(super) taken_in: Vec<String>,
    /// Ranks whose collectives and messages fit no other's.
    pub(super) strangers: Vec<i64>,
    /// Process groups by their number in the files.
    pub(super) groups: BTreeMap<u32, Vec<u64>>,
    /// Collectives that all ranks have whose traces are here.
    pub(super) collectives: u64,
    /// Messages of which both sides are here.
    pub(super) messages: u64,
    /// Collectives and messages of which only one rank's trace is here.
    pub(super) alone: u64,
    /// Collectives and messages of which a side is missing or another kind.
    pub(super) unmatched: u64,
    /// What is missing, unequal or not known.
    pub(super) problems: Vec<JoinProblem>,
    /// The ranks' clocks against the first rank's; none with `--no-align`.
    pub(super) clocks: Vec<RankClock>,
    /// The file of all ranks for Perfetto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeline: Option<Written>,
    #[serde(skip)]
    pub(super) common: Option<Common>,
    #[serde(skip)]
    pub(super) agreed: RunAgreement,
    /// Label of each joined rank.
    #[serde(skip)]
    labels: Vec<String>,
}

/// A trace that is not joined.
#[derive(Serialize)]
pub(super) struct Stray {
    /// Name of the trace.
    pub(super) label: String,
    /// Why; none where its rank is not sure.
    pub(super) why: Option<ExcludeReason>,
}

impl Joined {
    /// Joins those of `ranks` that are of one run.
    pub(super) fn of(args: &Merge, run: &str, ranks: &[&Rank]) -> Joined {
        let (sure, unsure): (Vec<&Rank>, Vec<&Rank>) = ranks
            .iter()
            .filter(|rank| rank.is_usable())
            .partition(|rank| rank.known.is_some());
        let known: Vec<(&str, &Known)> = sure
            .iter()
            .filter_map(|rank| Some((rank.label.as_str(), rank.known.as_ref()?)))
            .collect();
        // clones are small beside a trace: a hundred bytes per communication
        let all: Vec<RankSummary> = known.iter().map(|(_, known)| known.facts.clone()).collect();
        let company = select_run(&all, args.how.force);
        let taken_in = if args.how.force {
            taken_in(&all, known.iter().map(|(label, _)| *label))
        } else {
            vec![]
        };
        let mut left_out: Vec<Stray> = unsure
            .iter()
            .map(|rank| Stray {
                label: rank.label.clone(),
                why: None,
            })
            .collect();
        let (mut facts, mut sizes, mut labels) = (vec![], vec![], vec![]);
        for ((own, (label, known)), why) in all.into_iter().zip(known).zip(company.excluded) {
            if why.is_some() {
                left_out.push(Stray {
                    label: label.to_owned(),
                    why,
                });
            } else {
                facts.push(own);
                sizes.push(known.sizes.clone());
                labels.push(label.to_owned());
            }
        }
        let join = join_ranks(&facts);
        let agreed = agree(&facts, &sizes, &join, args.simulator.is_some());
        let clocks = if args.no_align {
            vec![]
        } else {
            align_clocks(&facts, &join)
        };
        let common = Common::of(args, &facts, &join, &clocks);
        let mut joined = Joined::counted(&join);
        joined
            .problems
            .extend(serialize_comms(&facts, &join, &agreed.deadlocked));
        joined.strangers = join
            .ranks_without_match(facts.len())
            .into_iter()
            .map(|at| facts[at].rank)
            .collect();
        let ranks = facts.iter().map(|facts| facts.rank).collect();
        let (world_size, absent) = (company.world_size, company.absent);
        Joined {
            run: run.to_owned(),
            ranks,
            world_size,
            absent,
            left_out,
            taken_in,
            clocks,
            common,
            agreed,
            labels,
            ..joined
        }
    }

    fn counted(join: &RunJoin) -> Joined {
        let count = |message: bool| {
            let whole = join
                .matches
                .iter()
                .filter(|joint| joint.is_whole() && joint.is_shared());
            whole
                .filter(|joint| matches!(joint.channel, CommChannel::Message { .. }) == message)
                .count() as u64
        };
        Joined {
            run: String::new(),
            ranks: vec![],
            world_size: None,
            absent: vec![],
            left_out: vec![],
            taken_in: vec![],
            strangers: vec![],
            groups: join.groups.clone(),
            collectives: count(false),
            messages: count(true),
            alone: join
                .matches
                .iter()
                .filter(|joint| !joint.is_shared())
                .count() as u64,
            unmatched: join
                .matches
                .iter()
                .filter(|joint| !joint.is_whole())
                .count() as u64,
            problems: join.problems.clone(),
            clocks: vec![],
            timeline: None,
            common: None,
            agreed: RunAgreement::default(),
            labels: vec![],
        }
    }

    pub(super) fn place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }

    /// Whether a rank was joined.
    pub(super) fn has(&self, label: &str) -> bool {
        self.place(label).is_some()
    }

    /// What a rank is among the others; one that was not joined is by itself.
    pub(super) fn among(&self, args: &Merge, label: &str) -> RankContext<'_> {
        let Some(place) = self.place(label) else {
            return RankContext::default();
        };
        RankContext {
            agreement: self.agreed.ranks.get(place),
            serialize_comms: args.simulator.is_some(),
            clock: self.clock(place),
        }
    }

    /// A rank's clock against the first's.
    pub(super) fn clock(&self, place: usize) -> RankClock {
        self.clocks.get(place).copied().unwrap_or_default()
    }
}

impl Rank {
    /// Whether it was linked and may be written.
    fn is_usable(&self) -> bool {
        self.known.is_some() || self.linked.as_ref().is_some_and(|linked| !linked.refused)
    }
}
