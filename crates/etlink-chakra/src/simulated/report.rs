//! The simulated run beside the measured one.

use super::comms::{Between, SimulatedComm, SimulatedRun, length, union};
use super::log::{AstraLog, LoggedRank, LoggedStatistics};
use super::measured::{MeasuredComm, MeasuredRun};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};

/// What was simulated, and beside it what was measured, ns of each.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SimulationReport {
    /// By rank.
    pub ranks: Vec<ComparedRank>,
    /// Ranks that did not finish, and for what they wait.
    pub stuck: Vec<StuckRank>,
    /// The simulator came to its end. Where it did not, ranks that did not finish may go on.
    pub log_has_end: bool,
    /// By kind.
    pub kinds: Vec<ComparedKind>,
    /// Each collective and message, those first whose transfers differ most.
    pub communications: Vec<ComparedComm>,
    /// Communications of the simulation of which the recording has no counterpart.
    pub unpaired: u64,
}

/// A rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedRank {
    /// Its number.
    pub rank: i64,
    /// When it finished in the simulation.
    pub simulated_ns: Option<i64>,
    /// When it ended in the recording, from the first begin of a rank.
    pub measured_ns: Option<i64>,
    /// The first less the second, by the second.
    pub change: Option<f64>,
    /// Time in which something was communicated, as simulated; `None`: the log has no nodes.
    pub communication_ns: Option<i64>,
    /// The same, as measured, of what both have.
    pub measured_communication_ns: Option<i64>,
    /// Time in which something was communicated and nothing computed, as simulated.
    pub exposed_ns: Option<i64>,
    /// What ASTRA-sim calls exposed communication: all but the computation of devices.
    pub stated_exposed_ns: Option<i64>,
    /// ASTRA-sim's own sums.
    pub statistics: LoggedStatistics,
    /// Nodes of its graph.
    pub nodes: u64,
    /// Those that were done; of a log without nodes 0.
    pub nodes_done: u64,
}

/// A rank that did not finish.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StuckRank {
    /// Its number.
    pub rank: i64,
    /// The nodes that were issued and not done, by name.
    pub waiting: Vec<String>,
}

/// All communications of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedKind {
    /// Of collective, or `message`.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// Those whose transfer both the simulation and the recording tell: the sums are of these. Without
    /// a recording they are of all.
    pub compared: u64,
    /// What their transfers took in the simulation.
    pub simulated_ns: i64,
    /// The same in the recording.
    pub measured_ns: i64,
    /// The first less the second, by the second.
    pub change: Option<f64>,
    /// What they took in the recording until the last rank was done.
    pub last_done_ns: i64,
    /// What ranks waited for the last to come, summed, as simulated.
    pub simulated_wait_ns: i64,
    /// The same, as measured.
    pub measured_wait_ns: i64,
}

/// A collective or message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedComm {
    /// Of collective, or `message`.
    pub kind: &'static str,
    /// Between whom.
    pub ranks: String,
    /// Its number in the recording; without one its place between its ranks, from 0.
    pub number: i64,
    /// Largest of the ranks' sizes, bytes.
    pub bytes: u64,
    /// When the last rank came in the simulation.
    pub simulated_start_ns: i64,
    /// From the last rank's arrival to the last end, as simulated.
    pub simulated_ns: Option<i64>,
    /// When the last rank came in the recording.
    pub measured_start_ns: Option<i64>,
    /// From the last rank's arrival to the end, as measured: on devices to the last end. A host
    /// thread that the operating system held up ends later than the transfer, so that among these
    /// the first end counts, as in the fit of the network.
    pub measured_ns: Option<i64>,
    /// From the last rank's arrival to the last end, as measured.
    pub last_done_ns: Option<i64>,
    /// The simulated transfer less the measured one.
    pub longer_ns: Option<i64>,
    /// What ranks waited for the last to come, summed, as simulated.
    pub simulated_wait_ns: i64,
    /// The same, as measured.
    pub measured_wait_ns: Option<i64>,
}

/// When the ranks came to a communication and were done with it.
#[derive(Clone, Copy, Debug, Default)]
struct MeetingTimes {
    last_arrival_ns: i64,
    transfer_ns: Option<i64>,
    wait_ns: i64,
}

impl MeetingTimes {
    /// Of arrivals, ends and whether that rank sends a message.
    fn new(members: impl Iterator<Item = (i64, Option<i64>, bool)> + Clone) -> MeetingTimes {
        let arrivals = members.clone().map(|(arrives, ..)| arrives);
        let last_arrival_ns = arrivals.max().unwrap_or(0);
        let mut times = MeetingTimes {
            last_arrival_ns,
            ..MeetingTimes::default()
        };
        let mut is_known = true;
        for (arrives, ends, sends) in members {
            // A sender needs nobody, and is done when its buffer is free.
            if sends {
                continue;
            }
            times.wait_ns += last_arrival_ns - arrives;
            is_known &= ends.is_some();
            let transfer = ends.map(|ends| ends - last_arrival_ns);
            times.transfer_ns = times.transfer_ns.max(transfer);
        }
        // Clocks that are off can have the last come after the end.
        times.transfer_ns = times.transfer_ns.filter(|ns| *ns > 0 && is_known);
        times
    }
}

/// Compares a simulation with what was measured, if that is known. O(n log n) in the
/// communications.
pub fn compare_simulation(
    log: &AstraLog,
    run: &SimulatedRun,
    measured: Option<&MeasuredRun>,
) -> SimulationReport {
    let mut report = SimulationReport {
        log_has_end: log.has_end,
        ..SimulationReport::default()
    };
    let pairs = measured.map(|measured| Pairing::new(run, measured));
    let mut measured_busy: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    let mut kinds: BTreeMap<&'static str, ComparedKind> = BTreeMap::new();
    for (index, comm) in run.comms.iter().enumerate() {
        let pair = pairs.as_ref().map(|pairs| pairs.of[index]);
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
    // Stable: those that do not differ, or are not compared, stay in order of time.
    report.communications.sort_by_key(|comm| {
        let differs = comm.longer_ns.map(i64::unsigned_abs);
        std::cmp::Reverse(differs)
    });
    for (rank, graph) in &run.ranks {
        let none = LoggedRank::default();
        let logged = log.ranks.get(rank).unwrap_or(&none);
        let measured_ns = measured.and_then(|measured| Some(measured.windows.get(rank)?.1));
        let has_nodes = !logged.nodes.is_empty();
        let busy = measured_busy.remove(rank).map(union);
        report.ranks.push(ComparedRank {
            rank: *rank,
            simulated_ns: logged.finished_ns,
            measured_ns,
            change: logged.finished_ns.zip(measured_ns).and_then(relative),
            communication_ns: has_nodes.then_some(graph.communication_ns),
            measured_communication_ns: busy.map(|busy| length(&busy)),
            exposed_ns: graph.exposed_ns,
            stated_exposed_ns: logged.exposed_ns,
            statistics: logged.statistics,
            nodes: graph.nodes,
            nodes_done: graph.done,
        });
        if logged.finished_ns.is_none() {
            report.stuck.push(stuck_rank(*rank, log, logged));
        }
    }
    report
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
    let members = comm.members.iter();
    let simulated =
        MeetingTimes::new(members.map(|member| (member.arrives_ns, member.ends_ns, member.sends)));
    let complete = pair.filter(|pair| pair.is_complete);
    let measured = complete.map(|pair| {
        let members = pair.members.iter();
        MeetingTimes::new(members.map(|member| (member.arrives_ns, member.ends_ns, member.sends)))
    });
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

/// Which communication of the recording each of the simulation is.
struct Pairing<'m> {
    of: Vec<Option<&'m MeasuredComm>>,
}

/// What tells where a communication belongs.
type ChannelOfKind<'a> = (&'a Between, &'static str);

impl<'m> Pairing<'m> {
    /// By their numbers, where all of a channel and kind have one that the other side has as well,
    /// else by their order, where there are as many.
    fn new(run: &SimulatedRun, measured: &'m MeasuredRun) -> Pairing<'m> {
        let mut known: BTreeMap<ChannelOfKind<'_>, Vec<&'m MeasuredComm>> = BTreeMap::new();
        for comm in &measured.comms {
            known
                .entry((&comm.between, comm.kind))
                .or_default()
                .push(comm);
        }
        let mut asked: BTreeMap<ChannelOfKind<'_>, Vec<usize>> = BTreeMap::new();
        for (index, comm) in run.comms.iter().enumerate() {
            asked
                .entry((&comm.between, comm.kind))
                .or_default()
                .push(index);
        }
        let mut of = vec![None; run.comms.len()];
        for (channel, mut indices) in asked {
            let Some(mut known) = known.remove(&channel) else {
                continue;
            };
            indices.sort_by_key(|index| run.comms[*index].place);
            let numbers = indices.iter().map(|index| run.comms[*index].seq);
            if let Some(numbered) = pairs_by_number(numbers, &known) {
                for (index, pair) in indices.into_iter().zip(numbered) {
                    of[index] = Some(pair);
                }
            } else if known.len() == indices.len() {
                known.sort_by_key(|comm| comm.number);
                for (index, pair) in indices.into_iter().zip(known) {
                    of[index] = Some(pair);
                }
            }
        }
        Pairing { of }
    }
}

/// The counterpart of each number, if all have one. Collectives of one `ncclGroupStart` have one
/// number: the second of that number is the second of the recording.
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
