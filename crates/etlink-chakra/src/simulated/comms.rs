//! Combines the log's times with the graphs' contents to the communications of a simulation.

use super::log::{AstraLog, LoggedNode, LoggedRank};
use crate::convert::{GroupRanks, communication_kind, runs_on_device};
use crate::read::ChakraGraph;
use etlink_link::ranks::{GroupIdentity, rank_list};
use etlink_model::{CollectiveKind, Failure};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Participants of a communication, by global rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Between {
    /// Ranks of a group, ascending.
    Ranks(Vec<i64>),
    /// Message from one rank to another.
    Message {
        /// Sending rank.
        src: i64,
        /// Receiving rank.
        dst: i64,
    },
    /// Name of a group whose ranks are not listed.
    Group(String),
}

impl Between {
    /// Formats the participants, such as `ranks 0, 1`.
    pub fn describe(&self) -> String {
        match self {
            Between::Ranks(ranks) => rank_list("rank", ranks),
            Between::Message { src, dst } => format!("rank {src} to rank {dst}"),
            Between::Group(name) => format!("group {name}"),
        }
    }
}

/// Part of a rank in which a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeLane {
    /// The host.
    Host,
    /// A device.
    Device,
    /// The network.
    Communication,
}

/// A node with its times, for a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedSlice {
    /// Name of the node.
    pub name: String,
    /// Id of the node.
    pub id: u64,
    /// Part of the rank in which the node runs.
    pub lane: NodeLane,
    /// Name of the thread or stream.
    pub track: String,
    /// Simulated start and end, in nanoseconds; `None` if the node was not completed.
    pub simulated_ns: Option<(i64, i64)>,
    /// Measured start in nanoseconds since the Unix epoch, and measured duration; `None` if
    /// unknown.
    pub measured_ns: Option<(i64, i64)>,
}

/// Communications of a rank, from its graph and the log.
#[derive(Clone, Debug, Default)]
pub struct GraphComms {
    rank: i64,
    /// Communications, each with this rank as its only member.
    pub(super) comms: Vec<SimulatedComm>,
    /// Time in which the rank communicates, in nanoseconds.
    pub(super) communication_ns: i64,
    /// Time in which the rank communicates without computing, in nanoseconds; `None` if the log has
    /// no nodes of the rank.
    pub(super) exposed_ns: Option<i64>,
    /// Nodes of the rank; empty unless a timeline is wanted.
    pub slices: Vec<SimulatedSlice>,
    /// Number of nodes in the graph.
    pub nodes: u64,
    /// Number of completed nodes.
    pub done: u64,
}

/// A collective or message of a simulation.
#[derive(Clone, Debug)]
pub(super) struct SimulatedComm {
    pub(super) between: Between,
    pub(super) kind: &'static str,
    pub(super) bytes: u64,
    /// Number in the traces; `None` if the ranks' numbers differ.
    pub(super) seq: Option<i64>,
    /// Position among the communications of its ranks, from 0.
    pub(super) place: usize,
    pub(super) members: Vec<CommMember>,
}

/// One rank's side of a communication.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommMember {
    pub(super) rank: i64,
    pub(super) arrives_ns: i64,
    /// End of the rank's transfer; `None` if unknown.
    pub(super) ends_ns: Option<i64>,
    pub(super) sends: bool,
}

/// All ranks of a simulation.
#[derive(Clone, Debug, Default)]
pub struct SimulatedRun {
    /// Communications by rank.
    pub ranks: BTreeMap<i64, GraphComms>,
    /// Communications in the order in which the last rank reaches them.
    pub(super) comms: Vec<SimulatedComm>,
}

impl GraphComms {
    /// Reads a rank's communications from the log and its graph; keeps all nodes if `slices` is
    /// set. O(n log n).
    ///
    /// # Errors
    /// Fails if log and graph belong to different runs.
    pub fn new(
        rank: i64,
        graph: &ChakraGraph,
        groups: &GroupRanks,
        log: &AstraLog,
        slices: bool,
    ) -> Result<GraphComms, Failure> {
        let mut own = GraphComms {
            rank,
            nodes: graph.len() as u64,
            ..GraphComms::default()
        };
        let Some(logged) = log.ranks.get(&rank) else {
            return Ok(own);
        };
        let places: FxHashMap<u64, usize> = graph.id.iter().copied().zip(0..).collect();
        let (mut on_host, mut on_device, mut communicating) = (vec![], vec![], vec![]);
        for (id, node) in &logged.nodes {
            let Some(index) = places.get(id).copied() else {
                return Err(Failure::new(format!(
                    "line {}: rank {rank} issues node {id}, which is not in its graph",
                    node.line
                )));
            };
            check_name(
                rank,
                *id,
                node.line,
                log.names.get(node.name),
                graph.name_of(index),
            )?;
            own.done += u64::from(node.end_ns.is_some());
            let times = (node.start_ns, node.end_ns.unwrap_or(log.last_ns));
            match rank_comm(rank, graph, groups, index, node) {
                Some(comm) => {
                    communicating.push(times);
                    own.comms.push(comm);
                }
                None if graph.is_cpu_op[index] == Some(true) => on_host.push(times),
                None => on_device.push(times),
            }
        }
        if !logged.nodes.is_empty() {
            let communicating = union(communicating);
            own.communication_ns = length(&communicating);
            // A rank computes on its devices, or on the host if it has none.
            let computing = if on_device.is_empty() {
                on_host
            } else {
                on_device
            };
            own.exposed_ns = Some(length_without(&communicating, &union(computing)));
        }
        if slices {
            own.slices = slices_of(graph, logged);
        }
        Ok(own)
    }
}

fn check_name(rank: i64, node: u64, line: u64, logged: &str, written: &str) -> Result<(), Failure> {
    // The log truncates a name at its first line break.
    let first_line = written.split('\n').next().unwrap_or_default();
    if logged == written || logged == first_line {
        return Ok(());
    }
    Err(Failure::new(format!(
        "line {line}: node {node} of rank {rank} is named `{logged}`, but `{written}` in its graph"
    )))
}

/// Returns the communication of node `index`; `None` for computation.
fn rank_comm(
    rank: i64,
    graph: &ChakraGraph,
    groups: &GroupRanks,
    index: usize,
    logged: &LoggedNode,
) -> Option<SimulatedComm> {
    let comm = graph.comm_of(index);
    let kind = communication_kind(graph.node_type[index], &comm)?;
    let (between, name) = match kind {
        CollectiveKind::Send => {
            let dst = comm.dst.unwrap_or(-1);
            (Between::Message { src: rank, dst }, "message")
        }
        CollectiveKind::Recv => {
            let src = comm.src.unwrap_or(-1);
            (Between::Message { src, dst: rank }, "message")
        }
        _ => {
            let group = comm.group.map_or("", |group| graph.names.get(group));
            (group_ranks(groups, group), kind.name())
        }
    };
    let member = CommMember {
        rank,
        arrives_ns: logged.start_ns,
        ends_ns: logged.end_ns,
        sends: kind == CollectiveKind::Send,
    };
    Some(SimulatedComm {
        between,
        kind: name,
        bytes: comm.size.map_or(0, |size| size.max(0).cast_unsigned()),
        seq: comm.seq,
        place: 0,
        members: vec![member],
    })
}

fn group_ranks(groups: &GroupRanks, name: &str) -> Between {
    match groups.group(name) {
        GroupIdentity::Ranks(ranks) => Between::Ranks(
            ranks
                .iter()
                .filter_map(|rank| i64::try_from(rank).ok())
                .collect(),
        ),
        _ => Between::Group(name.to_owned()),
    }
}

/// Merges intervals so that they do not touch, in ascending order.
pub(super) fn union(mut all: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    all.sort_unstable();
    let mut joined: Vec<(i64, i64)> = vec![];
    for (start, end) in all {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

pub(super) fn length(intervals: &[(i64, i64)]) -> i64 {
    intervals.iter().map(|(start, end)| end - start).sum()
}

/// Returns the length of the first list without the second; both are results of [`union`].
fn length_without(intervals: &[(i64, i64)], others: &[(i64, i64)]) -> i64 {
    let (mut common, mut at) = (0, 0);
    for (start, end) in intervals {
        while others.get(at).is_some_and(|other| other.1 <= *start) {
            at += 1;
        }
        // One of the others can extend into the next interval, so `at` stays.
        let overlapping = others[at..].iter().take_while(|other| other.0 < *end);
        common += overlapping
            .map(|other| other.1.min(*end) - other.0.max(*start))
            .sum::<i64>();
    }
    length(intervals) - common
}

fn slices_of(graph: &ChakraGraph, logged: &LoggedRank) -> Vec<SimulatedSlice> {
    let base_ns = graph.base_time_ns().unwrap_or(0);
    let slice = |index: usize| {
        let id = graph.id[index];
        let node = logged.nodes.get(&id);
        let place = graph.place_of(index);
        let is_comm = communication_kind(graph.node_type[index], &graph.comm_of(index)).is_some();
        let lane = match (is_comm, graph.is_cpu_op[index]) {
            (true, _) => NodeLane::Communication,
            (false, Some(true)) => NodeLane::Host,
            (false, _) => NodeLane::Device,
        };
        let track = match (place.stream, place.tid) {
            (Some(stream), _) if runs_on_device(graph, index, place) => format!("stream {stream}"),
            (_, Some(thread)) => format!("thread {}", graph.label(thread)),
            _ => "computation".to_owned(),
        };
        SimulatedSlice {
            name: graph.name_of(index).to_owned(),
            id,
            lane,
            track,
            simulated_ns: node.and_then(|node| Some((node.start_ns, node.end_ns?))),
            measured_ns: graph.start_ns[index]
                .map(|start| (base_ns.saturating_add(start), graph.duration_ns[index])),
        }
    };
    (0..graph.len()).map(slice).collect()
}

impl SimulatedRun {
    /// Matches the communications of the ranks: ASTRA-sim matches collectives of a group, and
    /// messages from one rank to another, in the order in which they are issued. O(n log n) in the
    /// communications.
    pub fn new(ranks: Vec<GraphComms>) -> SimulatedRun {
        let mut channels: BTreeMap<Between, Vec<SimulatedComm>> = BTreeMap::new();
        for of_rank in &ranks {
            let mut next: BTreeMap<(&Between, bool), usize> = BTreeMap::new();
            for comm in &of_rank.comms {
                // A message to the own rank is both; `check` reports it.
                let sends = comm.members.iter().any(|member| member.sends);
                let next = next.entry((&comm.between, sends)).or_default();
                let place = std::mem::replace(next, *next + 1);
                let of_channel = channels.entry(comm.between.clone()).or_default();
                let comm = comm.clone();
                add_comm(of_channel, SimulatedComm { place, ..comm });
            }
        }
        let mut comms: Vec<SimulatedComm> = channels.into_values().flatten().collect();
        comms.sort_by_key(|comm| (comm.last_arrival(), comm.place));
        let ranks = ranks.into_iter().map(|rank| (rank.rank, rank)).collect();
        SimulatedRun { ranks, comms }
    }
}

/// Adds a rank's communication to those of its channel.
fn add_comm(of_channel: &mut Vec<SimulatedComm>, comm: SimulatedComm) {
    // The first rank has all positions in order; another rank can have more.
    let count = of_channel.len();
    match of_channel.get_mut(comm.place) {
        Some(known) => {
            if known.seq != comm.seq {
                known.seq = None;
            }
            known.bytes = known.bytes.max(comm.bytes);
            known.members.extend(comm.members);
        }
        None if count == comm.place => of_channel.push(comm),
        None => {}
    }
}

impl SimulatedComm {
    pub(super) fn last_arrival(&self) -> i64 {
        let arrivals = self.members.iter().map(|member| member.arrives_ns);
        arrivals.max().unwrap_or(0)
    }
}
