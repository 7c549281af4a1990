//! The ranks of one run, joined.

use super::timeline_context::{TimelineContext, TimelineReport};
use super::{KnownRank, MergeOptions};
use crate::job::RankContext;
use crate::joined::JoinedRun;
use crate::membership::{Excluded, Exclusion, Members, MembershipRule, RunMember};
use crate::run::RunOptions;
use crate::run_files::RunFiles;
use etlink_chakra::astra::MIN_RANKS;
use etlink_chakra::{NetworkFit, RooflineDevice, RunAgreement, agree, fit_network, set_waits};
use etlink_link::ranks::{
    CommChannel, JoinProblem, JoinProblemKind, RankClock, RankSummary, RunJoin, serialize_comms,
};
use etlink_model::GlobalRank;
use serde::Serialize;
use std::collections::BTreeMap;

/// How the ranks of a run go together.
#[derive(Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergedRun {
    /// Folder of the run.
    pub run: String,
    /// Global ranks that were joined.
    pub ranks: Vec<GlobalRank>,
    /// Number of ranks of the run, as most traces say it.
    pub world_size: Option<i64>,
    /// Ranks of the run that have no trace here.
    pub absent: Vec<GlobalRank>,
    /// Traces that are not of this run.
    pub excluded: Vec<Excluded>,
    /// Traces that are not of this run and were taken in by `--allow-mismatch`, and why they are
    /// not.
    pub taken_in: Vec<String>,
    /// A note on ranks without a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent_note: Option<String>,
    /// Ranks whose collectives and messages fit no other's.
    pub strangers: Vec<GlobalRank>,
    /// Process groups by their number in the files.
    pub groups: BTreeMap<u32, Vec<u64>>,
    /// Collectives that all ranks have whose traces are here.
    pub collectives: u64,
    /// Messages of which both sides are here.
    pub messages: u64,
    /// Collectives and messages of which only one rank's trace is here.
    pub alone: u64,
    /// Collectives and messages of which a side is missing or another kind.
    pub unmatched: u64,
    /// What is missing, unequal or not known.
    pub problems: Vec<JoinProblem>,
    /// The ranks' clocks against the first rank's; none with `--no-align`.
    pub clocks: Vec<RankClock>,
    /// Latency and bandwidth that the communications tell, for a simulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkFit>,
    /// The file of all ranks for Perfetto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineReport>,
    #[serde(skip)]
    pub(super) common: Option<TimelineContext>,
    #[serde(skip)]
    pub(super) agreed: RunAgreement,
    /// No rank communicates.
    #[serde(skip)]
    pub(super) is_silent: bool,
    /// Label of each joined rank.
    #[serde(skip)]
    labels: Vec<String>,
    /// Ranks of a simulator, each of which has a file.
    #[serde(skip)]
    simulated: u64,
    /// It becomes a simulation or a timeline, which are of all ranks.
    #[serde(skip)]
    is_of_all: bool,
}

impl MergedRun {
    /// Joins those of `ranks` that are of one run. Of these it takes what only the join needs: a
    /// hundred bytes for each communication, which would else be there twice.
    pub(super) fn new(
        options: &MergeOptions,
        how: &RunOptions,
        files: &RunFiles,
        ranks: Vec<JoinMember<'_>>,
    ) -> MergedRun {
        let rule = MembershipRule {
            allow_mismatch: how.allow_mismatch,
            // files are named by ranks, and simulators find the peers of a message by them
            needs_rank: true,
        };
        let members = Members::select(ranks, rule);
        let taken_in: Vec<String> = members.mismatch_notes().collect();
        let (mut facts, mut sizes, mut labels) = (vec![], vec![], vec![]);
        let mut devices = vec![];
        for rank in members.ranks {
            // always so, since a rank without it has no summary and is excluded
            if let Some(known) = rank.known {
                facts.push(std::mem::take(&mut known.facts));
                sizes.push(std::mem::take(&mut known.sizes));
                devices.push(&known.device);
                labels.push(rank.label.to_owned());
            }
        }
        let JoinedRun {
            summaries: facts,
            matches: join,
            clocks,
            ..
        } = JoinedRun::as_recorded(facts, how.align);
        // a simulator stops for ever where two ranks state different sizes for one collective
        let mut agreed = agree(&facts, &sizes, &join, options.simulator.is_some());
        agreed.set_device(RooflineDevice::of_run(devices));
        let mut network = None;
        let mut simulated = 0;
        if options.simulator.is_some() {
            let ranks: Vec<GlobalRank> = facts.iter().map(|facts| facts.rank).collect();
            simulated = simulated_ranks(&ranks, members.world_size);
            network = fit_network(&agreed, &facts, &join, &clocks, simulated);
            set_waits(&mut agreed, &facts, &join, &clocks, network.as_ref());
        }
        let common = TimelineContext::from_join(options, &facts, &join, &clocks);
        let mut joined = MergedRun::from_counts(&join);
        joined
            .problems
            .extend(serialize_comms(&facts, &join, &agreed.deadlocked));
        joined.strangers = join
            .ranks_without_match(facts.len())
            .into_iter()
            .map(|at| facts[at.index()].rank)
            .collect();
        let ranks = facts.iter().map(|facts| facts.rank).collect();
        let (world_size, mut absent) = (members.world_size, members.absent);
        // a rank that was not asked for is not missing
        absent.retain(|rank| how.is_asked(Some(rank.0)));
        MergedRun {
            run: files.folder.display().to_string(),
            ranks,
            world_size,
            absent_note: how.absent_note(files, &absent),
            absent,
            excluded: members.excluded,
            taken_in,
            clocks,
            common,
            is_silent: !agreed.communicates(),
            agreed,
            network,
            labels,
            simulated,
            is_of_all: options.simulator.is_some() || options.is_timeline(),
            ..joined
        }
    }

    /// Whether the run has one rank, to which a simulator adds a neighbour.
    pub fn is_single(&self) -> bool {
        self.world_size.unwrap_or(1) <= 1 && self.ranks.len() == 1
    }

    /// Whether there are communications of which nothing is known but that they are.
    pub fn has_unrecorded(&self) -> bool {
        let mut problems = self.problems.iter();
        problems.any(|problem| problem.kind == JoinProblemKind::GlooUnrecorded)
    }

    fn from_counts(join: &RunJoin) -> MergedRun {
        let count = |message: bool| {
            let whole = join
                .matches
                .iter()
                .filter(|joint| joint.is_whole() && joint.is_shared());
            whole
                .filter(|joint| matches!(joint.channel, CommChannel::Message { .. }) == message)
                .count() as u64
        };
        MergedRun {
            run: String::new(),
            ranks: vec![],
            world_size: None,
            absent: vec![],
            excluded: vec![],
            taken_in: vec![],
            absent_note: None,
            strangers: vec![],
            groups: join.groups.clone(),
            collectives: count(false),
            messages: count(true),
            // counted apart from what does not fit: the other ranks' traces are not here
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
            is_silent: true,
            network: None,
            labels: vec![],
            simulated: 0,
            is_of_all: false,
        }
    }

    /// Whether traces were left out of it. Where no rank is sure there is no run that any could be left
    /// out of; a simulation and a timeline have nothing then.
    pub fn is_short(&self) -> bool {
        let mut excluded = self.excluded.iter();
        let is_run = self.is_of_all || !self.ranks.is_empty();
        excluded.any(|one| is_run || one.reason != Exclusion::RankUnknown)
    }

    /// Whether its files are for a simulator, in which a rank that was not joined has no place.
    pub fn is_simulated(&self) -> bool {
        self.simulated > 0
    }

    /// Whether an empty rank stands in for one that was not joined: a simulator wants a file of each.
    pub fn is_idle(&self, label: &str) -> bool {
        let rank: Option<u64> = label.parse().ok();
        rank.is_some_and(|rank| rank < self.simulated) && !self.has(label)
    }

    pub(super) fn rank_place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }

    /// Whether a rank was joined.
    pub(super) fn has(&self, label: &str) -> bool {
        self.rank_place(label).is_some()
    }

    /// What a rank is among the others; one that was not joined is by itself.
    pub(super) fn rank_context(&self, options: &MergeOptions, label: &str) -> RankContext<'_> {
        let Some(place) = self.rank_place(label) else {
            return RankContext::default();
        };
        RankContext {
            agreement: self.agreed.ranks.get(place),
            serialize_comms: options.simulator.is_some(),
            clock: self.clock(place),
        }
    }

    /// A rank's clock against the first's.
    pub(super) fn clock(&self, place: usize) -> RankClock {
        self.clocks.get(place).copied().unwrap_or_default()
    }
}

/// A rank that was linked and may be written, for the join.
pub(super) struct JoinMember<'r> {
    pub(super) label: &'r str,
    /// `None` where its rank is not sure.
    pub(super) known: Option<&'r mut KnownRank>,
}

impl RunMember for JoinMember<'_> {
    fn label(&self) -> &str {
        self.label
    }

    fn summary(&self) -> Option<&RankSummary> {
        self.known.as_ref().map(|known| &known.facts)
    }
}

/// How many ranks a simulator has: those of the run, as its traces say it, and no fewer than the
/// last needs.
pub(super) fn simulated_ranks(ranks: &[GlobalRank], world_size: Option<i64>) -> u64 {
    let Some(last) = ranks.iter().max() else {
        return 0;
    };
    // ASTRA-sim numbers ranks without gaps
    let needed = last.0.saturating_add(1).max(world_size.unwrap_or(0));
    u64::try_from(needed).unwrap_or(0).max(MIN_RANKS)
}
