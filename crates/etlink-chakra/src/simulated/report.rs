//! Compares a simulated run with the measured one.

use super::comms::{Between, CommMember, SimulatedComm, SimulatedRun, length, union};
use super::log::{AstraLog, LoggedRank, LoggedStatistics};
use super::measured::{MeasuredComm, MeasuredRun};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// Simulated and measured times of a run, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulationReport {
    /// Times per rank.
    pub ranks: Vec<ComparedRank>,
    /// Ranks that did not finish, with the nodes they wait for.
    pub stuck: Vec<StuckRank>,
    /// Ranks that executed all nodes, but have no `finished` line: ASTRA-sim can abort at exit if a
    /// rank is in several groups. Their last node is their end.
    pub aborted: Vec<i64>,
    /// True if the simulator reached its end. If it did not, unfinished ranks may not be stuck.
    pub log_has_end: bool,
    /// Times per kind of communication.
    pub kinds: Vec<ComparedKind>,
    /// Each collective and message, ordered by difference of the transfers, largest first.
    pub communications: Vec<ComparedComm>,
    /// Number of simulated communications without a counterpart in the recording.
    pub unpaired: u64,
}

/// Times of one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRank {
    /// Number of the rank.
    pub rank: i64,
    /// Time at which the rank finished in the simulation; `None` if it did not.
    pub simulated_ns: Option<i64>,
    /// Time at which the rank ended in the recording, from the first start of a rank.
    pub measured_ns: Option<i64>,
    /// Relative difference of simulated to measured time.
    pub change: Option<f64>,
    /// Simulated time in which the rank communicates; `None` if the log has no nodes.
    pub communication_ns: Option<i64>,
    /// Measured time in which the rank communicates, of communications that both sides have.
    pub measured_communication_ns: Option<i64>,
    /// Simulated time in which the rank communicates without computing.
    pub exposed_ns: Option<i64>,
    /// Exposed communication according to ASTRA-sim: everything except computation of devices.
    pub stated_exposed_ns: Option<i64>,
    /// ASTRA-sim's own sums.
    pub statistics: LoggedStatistics,
    /// Number of nodes in the rank's graph.
    pub nodes: u64,
    /// Number of completed nodes; 0 if the log has no nodes.
    pub nodes_done: u64,
}

/// A rank that did not finish.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StuckRank {
    /// Number of the rank.
    pub rank: i64,
    /// Names of nodes that were issued and not completed.
    pub waiting: Vec<String>,
}

/// Times of all communications of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedKind {
    /// Kind of collective, or `message`.
    pub kind: &'static str,
    /// Number of communications.
    pub count: u64,
    /// Number of communications whose transfer time is known in simulation and recording; the sums
    /// cover these. Without a recording, the sums cover all communications.
    pub compared: u64,
    /// Simulated time of the transfers.
    pub simulated_ns: i64,
    /// Measured time of the transfers.
    pub measured_ns: i64,
    /// Relative difference of simulated to measured time.
    pub change: Option<f64>,
    /// Measured time until the last rank was done.
    pub last_done_ns: i64,
    /// Simulated time that ranks waited for the last to arrive, summed.
    pub simulated_wait_ns: i64,
    /// Measured time that ranks waited for the last to arrive, summed.
    pub measured_wait_ns: i64,
}

/// A collective or message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedComm {
    /// Kind of collective, or `message`.
    pub kind: &'static str,
    /// Participating ranks, as text.
    pub ranks: String,
    /// Number in the recording; without one, the position between its ranks, from 0.
    pub number: i64,
    /// Largest of the ranks' sizes, in bytes.
    pub bytes: u64,
    /// Time at which the last rank arrived in the simulation.
    pub simulated_start_ns: i64,
    /// Simulated time from the last rank's arrival to the last end.
    pub simulated_ns: Option<i64>,
    /// Time at which the last rank arrived in the recording.
    pub measured_start_ns: Option<i64>,
    /// Measured time from the last rank's arrival to the end. On devices, the last end counts. A
    /// host thread may end later than the transfer if the operating system delays it, so among host
    /// threads the first end counts, as in the fit of the network.
    pub measured_ns: Option<i64>,
    /// Measured time from the last rank's arrival to the last end.
    pub last_done_ns: Option<i64>,
    /// Simulated transfer time minus measured transfer time.
    pub longer_ns: Option<i64>,
    /// Simulated time that ranks waited for the last to arrive, summed.
    pub simulated_wait_ns: i64,
    /// Measured time that ranks waited for the last to arrive, summed.
    pub measured_wait_ns: Option<i64>,
}

/// Times at which ranks arrived at a communication and completed it.
#[derive(Clone, Copy, Debug, Default)]
struct MeetingTimes {
    last_arrival_ns: i64,
    transfer_ns: Option<i64>,
    wait_ns: i64,
}

impl MeetingTimes {
    fn new(members: &[CommMember]) -> MeetingTimes {
        let arrivals = members.iter().map(|member| member.arrives_ns);
        let last_arrival_ns = arrivals.max().unwrap_or(0);
        let mut times = MeetingTimes {
            last_arrival_ns,
            ..MeetingTimes::default()
        };
        let mut is_known = true;
        // A sender needs no other rank, and is done once its buffer is free.
        for member in members.iter().filter(|member| !member.sends) {
            times.wait_ns += last_arrival_ns - member.arrives_ns;
            is_known &= member.ends_ns.is_some();
            let transfer = member.ends_ns.map(|ends| ends - last_arrival_ns);
            times.transfer_ns = times.transfer_ns.max(transfer);
        }
        // If clocks are inaccurate, the last arrival may come after the end.
        times.transfer_ns = times.transfer_ns.filter(|ns| *ns > 0 && is_known);
        times
    }
}

/// Compares a simulation with the measurements, if known. O(n log n) in the communications.
pub fn compare_simulation(
    log: &AstraLog,
    run: &SimulatedRun,
    measured: Option<&MeasuredRun>,
) -> SimulationReport {
    let mut report = SimulationReport {
        log_has_end: log.has_end,
        ..SimulationReport::default()
    };
    let pairs = measured.map(|measured| pair(run, measured));
    let mut measured_busy: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    let mut kinds: BTreeMap<&'static str, ComparedKind> = BTreeMap::new();
    for (index, comm) in run.comms.iter().enumerate() {
        let pair = pairs.as_ref().map(|pairs| pairs[index]);
        let pair = pair.unwrap_or_default();
        report.unpaired += u64::from(pairs.is_some() && pair.is_none());
        for member in pair.into_iter().flat_map(|pair| &pair.members) {
            if let Some(ends) = member.ends_ns.filter(|ends| *ends > member.arrives_ns) {
                let busy = measured_busy.entry(member.rank).or_default();
                busy.push((member.arrives_ns, ends));
            }
        }
        let compared = compare_comm(comm, pair);
        let kind = kinds.entry(comm.kind).or_insert_with(|| ComparedKind {
            kind: comm.kind,
            ..ComparedKind::default()
        });
        kind.add(&compared, measured.is_some());
        report.communications.push(compared);
    }
    report.kinds = kinds.into_values().map(ComparedKind::finish).collect();
    // Stable: communications that do not differ, or are not compared, stay in order of time.
    report.communications.sort_by_key(|comm| {
        let differs = comm.longer_ns.map(i64::unsigned_abs);
        std::cmp::Reverse(differs)
    });
    for (rank, graph) in &run.ranks {
        let none = LoggedRank::default();
        let logged = log.ranks.get(rank).unwrap_or(&none);
        let measured_ns = measured.and_then(|measured| Some(measured.windows.get(rank)?.1));
        let has_nodes = !logged.nodes.is_empty();
        let end_ns = logged.finished_ns.or_else(|| {
            let is_done = has_nodes && graph.done == graph.nodes;
            is_done.then(|| last_end_ns(logged)).flatten()
        });
        let busy = measured_busy.remove(rank).map(union);
        report.ranks.push(ComparedRank {
            rank: *rank,
            simulated_ns: end_ns,
            measured_ns,
            change: end_ns.zip(measured_ns).and_then(relative),
            communication_ns: has_nodes.then_some(graph.communication_ns),
            measured_communication_ns: busy.map(|busy| length(&busy)),
            exposed_ns: graph.exposed_ns,
            stated_exposed_ns: logged.exposed_ns,
            statistics: logged.statistics,
            nodes: graph.nodes,
            nodes_done: graph.done,
        });
        match (end_ns, logged.finished_ns) {
            (None, _) => report.stuck.push(stuck_rank(*rank, log, logged)),
            (Some(_), None) => report.aborted.push(*rank),
            (Some(_), Some(_)) => {}
        }
    }
    report
}

/// Returns the end of a rank's last node.
fn last_end_ns(logged: &LoggedRank) -> Option<i64> {
    let ends = logged.nodes.values().filter_map(|node| node.end_ns);
    ends.max()
}

fn stuck_rank(rank: i64, log: &AstraLog, logged: &LoggedRank) -> StuckRank {
    let open = logged
        .nodes
        .iter()
        .filter(|(_, node)| node.end_ns.is_none());
    let waiting = open.map(|(id, node)| format!("{} (node {id})", log.names.get(node.name)));
    StuckRank {
        rank,
        waiting: waiting.collect(),
    }
}

fn compare_comm(comm: &SimulatedComm, pair: Option<&MeasuredComm>) -> ComparedComm {
    let simulated = MeetingTimes::new(&comm.members);
    let complete = pair.filter(|pair| pair.is_complete);
    let measured = complete.map(|pair| MeetingTimes::new(&pair.members));
    let last_done_ns = measured.and_then(|measured| measured.transfer_ns);
    let measured_ns = pair.and_then(|pair| pair.transfer_ns);
    ComparedComm {
        kind: comm.kind,
        ranks: comm.between.describe(),
        number: match (pair, comm.seq) {
            (Some(pair), _) => pair.number,
            (None, Some(seq)) => seq,
            (None, None) => i64::try_from(comm.place).unwrap_or(i64::MAX),
        },
        bytes: comm.bytes,
        simulated_start_ns: simulated.last_arrival_ns,
        simulated_ns: simulated.transfer_ns,
        measured_start_ns: measured.map(|measured| measured.last_arrival_ns),
        measured_ns,
        last_done_ns,
        longer_ns: simulated
            .transfer_ns
            .zip(measured_ns)
            .map(|(simulated, measured)| simulated - measured),
        simulated_wait_ns: simulated.wait_ns,
        measured_wait_ns: measured.map(|measured| measured.wait_ns),
    }
}

impl ComparedKind {
    fn add(&mut self, comm: &ComparedComm, is_measured: bool) {
        self.count += 1;
        if !is_measured {
            self.simulated_ns += comm.simulated_ns.unwrap_or(0);
            self.simulated_wait_ns += comm.simulated_wait_ns;
        }
        if let Some((simulated, measured)) = comm.simulated_ns.zip(comm.measured_ns) {
            self.compared += 1;
            self.simulated_ns += simulated;
            self.measured_ns += measured;
            self.last_done_ns += comm.last_done_ns.unwrap_or(measured);
            self.simulated_wait_ns += comm.simulated_wait_ns;
            self.measured_wait_ns += comm.measured_wait_ns.unwrap_or(0);
        }
    }

    fn finish(mut self) -> ComparedKind {
        self.change = relative((self.simulated_ns, self.measured_ns));
        self
    }
}

fn relative((simulated, measured): (i64, i64)) -> Option<f64> {
    (measured > 0).then(|| (simulated - measured) as f64 / measured as f64)
}

/// Returns the recorded counterpart of each simulated communication. They are paired by numbers if
/// all communications of a channel and kind have one that the other side has too; otherwise by order
/// if both sides have the same count.
fn pair<'m>(run: &SimulatedRun, measured: &'m MeasuredRun) -> Vec<Option<&'m MeasuredComm>> {
    let mut known: BTreeMap<(&Between, &str), Vec<&'m MeasuredComm>> = BTreeMap::new();
    for comm in &measured.comms {
        let channel = (&comm.between, comm.kind);
        known.entry(channel).or_default().push(comm);
    }
    let mut asked: BTreeMap<(&Between, &str), Vec<usize>> = BTreeMap::new();
    for (index, comm) in run.comms.iter().enumerate() {
        let channel = (&comm.between, comm.kind);
        asked.entry(channel).or_default().push(index);
    }
    let mut pairs = vec![None; run.comms.len()];
    for (channel, mut indices) in asked {
        let Some(mut known) = known.remove(&channel) else {
            continue;
        };
        indices.sort_by_key(|index| run.comms[*index].place);
        let numbers = indices.iter().map(|index| run.comms[*index].seq);
        if let Some(numbered) = pairs_by_number(numbers, &known) {
            known = numbered;
        } else if known.len() == indices.len() {
            known.sort_by_key(|comm| comm.number);
        } else {
            continue;
        }
        for (index, pair) in indices.into_iter().zip(known) {
            pairs[index] = Some(pair);
        }
    }
    pairs
}

/// Returns the counterpart of each number, if all have one. Collectives of one `ncclGroupStart`
/// share a number: the second one with this number is the second one in the recording.
fn pairs_by_number<'m>(
    numbers: impl Iterator<Item = Option<i64>>,
    known: &[&'m MeasuredComm],
) -> Option<Vec<&'m MeasuredComm>> {
    let mut by_number: BTreeMap<i64, VecDeque<&'m MeasuredComm>> = BTreeMap::new();
    for comm in known {
        by_number.entry(comm.number).or_default().push_back(comm);
    }
    numbers
        .map(|number| by_number.get_mut(&number?)?.pop_front())
        .collect()
}
