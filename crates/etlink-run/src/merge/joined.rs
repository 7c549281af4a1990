//! Joined ranks of one run, for a merge.

use super::timeline_context::{TimelineContext, TimelineReport};
use super::{KnownRank, MergeOptions};
use crate::job::RankContext;
use crate::joined::{JoinedRun, stranger_note};
use crate::membership::{Excluded, Exclusion, Members, MembershipRule, RunMember};
use crate::run::RunOptions;
use crate::run_files::RunFiles;
use etlink_chakra::astra::MIN_RANKS;
use etlink_chakra::{NetworkFit, RooflineDevice, RunAgreement, agree, fit_network, set_waits};
use etlink_link::ranks::{
    CommChannel, JoinProblem, JoinProblemKind, RankClock, RankSummary, RunJoin, serialize_comms,
};
use etlink_model::{Diagnostic, GlobalRank, diagnostic};
use serde::Serialize;
use std::collections::BTreeMap;

/// Join of the ranks of a run.
#[derive(Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MergedRun {
    /// Folder of the run.
    pub run: String,
    /// Global ranks that were joined.
    pub ranks: Vec<GlobalRank>,
    /// Number of ranks of the run, as stated by most traces.
    pub world_size: Option<i64>,
    /// Ranks of the run without a trace here.
    pub absent: Vec<GlobalRank>,
    /// Traces that are not of this run.
    pub excluded: Vec<Excluded>,
    /// Notes on the files of the run, on its ranks, and on the output.
    pub diagnostics: Vec<Diagnostic>,
    /// Ranks whose collectives and messages match no other rank's.
    pub strangers: Vec<GlobalRank>,
    /// Process groups, by their number in the files.
    pub groups: BTreeMap<u32, Vec<u64>>,
    /// Number of collectives shared by all their ranks with traces here.
    pub collectives: u64,
    /// Number of messages with both sides here.
    pub messages: u64,
    /// Number of collectives and messages with the trace of only one rank here.
    pub alone: u64,
    /// Number of collectives and messages with a missing side, or a side of another kind.
    pub unmatched: u64,
    /// Missing, unequal or unknown communications.
    pub problems: Vec<JoinProblem>,
    /// Clocks of the ranks relative to the first rank; empty with `--no-align`.
    pub clocks: Vec<RankClock>,
    /// Latency and bandwidth estimated from the communications, for a simulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkFit>,
    /// Timeline of all ranks for Perfetto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<TimelineReport>,
    #[serde(skip)]
    pub(super) common: Option<TimelineContext>,
    #[serde(skip)]
    pub(super) agreed: RunAgreement,
    /// True if no rank communicates.
    #[serde(skip)]
    pub(super) is_silent: bool,
    /// Label of each joined rank.
    #[serde(skip)]
    labels: Vec<String>,
    /// Number of ranks in a simulation, each with a file; 0 without one.
    #[serde(skip)]
    simulated: u64,
    /// True if the output is a simulation or a timeline, which includes all ranks.
    #[serde(skip)]
    is_of_all: bool,
}

impl MergedRun {
    /// Joins the members of `ranks` that belong to one run. Takes their data for the join, a
    /// hundred bytes per communication, which would otherwise be in memory twice.
    pub(super) fn new(
        options: &MergeOptions,
        how: &RunOptions,
        files: &RunFiles,
        ranks: Vec<JoinMember<'_>>,
    ) -> MergedRun {
        let rule = MembershipRule {
            allow_mismatch: how.allow_mismatch,
            // files are named by ranks, and simulators use these to find the peers of a message
            needs_rank: true,
        };
        let members = Members::select(ranks, rule);
        let mut diagnostics = files.diagnostics.clone();
        diagnostics.extend(members.mismatches.iter().map(Excluded::mismatch));
        let (mut facts, mut sizes, mut labels) = (vec![], vec![], vec![]);
        let mut devices = vec![];
        for rank in members.ranks {
            // always true: a rank without it has no summary and is excluded
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
        } = JoinedRun::as_recorded(facts, !how.no_align);
        // a simulator hangs if two ranks state different sizes for one collective
        let mut agreed = agree(&facts, &sizes, &join, options.simulator.is_some());
        agreed.set_device(RooflineDevice::of_run(devices));
        let mut network = None;
        let mut simulated = 0;
        if options.simulator.is_some() {
            let ranks: Vec<GlobalRank> = facts.iter().map(|facts| facts.rank).collect();
            simulated = simulated_ranks(&ranks, members.world_size);
            network = fit_network(&agreed, &facts, &join, &clocks, simulated);
            set_waits(&mut agreed, &facts, &join, &clocks, network.as_ref());
            diagnostics.extend(
                agreed.device.assumed().map(|why| {
                    diagnostic!(SimulatedTimes, "a roofline would have the peaks {why}")
                }),
            );
        }
        let common = TimelineContext::from_join(options, &facts, &join, &clocks);
        let mut joined = MergedRun::from_counts(&join);
        joined
            .problems
            .extend(serialize_comms(&facts, &join, &agreed.deadlocked));
        let strangers = join.strangers(&facts);
        diagnostics.extend(strangers.iter().map(|ranks| stranger_note(ranks)));
        joined.strangers = strangers.concat();
        let ranks = facts.iter().map(|facts| facts.rank).collect();
        let (world_size, mut absent) = (members.world_size, members.absent);
        // a rank that was not requested is not missing
        absent.retain(|rank| how.is_asked(Some(rank.0)));
        if let Some(absent_note) = how.absent_note(files, &absent) {
            let here = facts.len();
            let known = (here + absent.len()) as i64;
            // if no trace states the number, only the ranks in the traces' groups are known
            let all = world_size.unwrap_or(known);
            diagnostics.push(diagnostic!(
                RanksAbsent,
                "{}: {here} of {all} ranks have traces",
                absent_note.message
            ));
        }
        MergedRun {
            run: files.folder.display().to_string(),
            ranks,
            world_size,
            absent,
            excluded: members.excluded,
            diagnostics,
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

    /// Returns true if the run has one rank, to which a simulator adds a neighbour.
    pub fn is_single(&self) -> bool {
        self.world_size.unwrap_or(1) <= 1 && self.ranks.len() == 1
    }

    /// Returns true if some communications are known to exist, but have no record.
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
            groups: join.groups.clone(),
            collectives: count(false),
            messages: count(true),
            // counted separately from mismatches: the other ranks' traces are not here
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
            is_silent: true,
            ..MergedRun::default()
        }
    }

    /// Returns true if traces were excluded from the run. Without any certain rank, there is no run
    /// to exclude them from, but a simulation or a timeline then is empty.
    pub fn is_short(&self) -> bool {
        let mut excluded = self.excluded.iter();
        let is_run = self.is_of_all || !self.ranks.is_empty();
        excluded.any(|one| is_run || one.reason != Exclusion::RankUnknown)
    }

    /// Returns true if the files are for a simulator, which has no place for an unjoined rank.
    pub fn is_simulated(&self) -> bool {
        self.simulated > 0
    }

    /// Returns true if an empty rank replaces an unjoined one: a simulator needs a file per rank.
    pub fn is_idle(&self, label: &str) -> bool {
        let rank: Option<u64> = label.parse().ok();
        rank.is_some_and(|rank| rank < self.simulated) && !self.has(label)
    }

    pub(super) fn rank_place(&self, label: &str) -> Option<usize> {
        self.labels.iter().position(|known| known == label)
    }

    /// Returns true if a rank was joined.
    pub(super) fn has(&self, label: &str) -> bool {
        self.rank_place(label).is_some()
    }

    /// Returns the context of a rank in the run; the default if it was not joined.
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

    /// Returns the clock of a rank relative to the first rank.
    pub(super) fn clock(&self, place: usize) -> RankClock {
        self.clocks.get(place).copied().unwrap_or_default()
    }
}

/// A rank that was linked and may be written, for the join.
pub(super) struct JoinMember<'r> {
    pub(super) label: &'r str,
    /// State of the rank; `None` if the rank is uncertain.
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

/// Returns the number of ranks in a simulation: the run's world size according to its traces, or
/// more if the highest rank exceeds it.
pub(super) fn simulated_ranks(ranks: &[GlobalRank], world_size: Option<i64>) -> u64 {
    let Some(last) = ranks.iter().max() else {
        return 0;
    };
    // ASTRA-sim numbers ranks without gaps
    let needed = last.0.saturating_add(1).max(world_size.unwrap_or(0));
    u64::try_from(needed).unwrap_or(0).max(MIN_RANKS)
}
