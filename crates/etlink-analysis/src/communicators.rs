//! Sizes, times and bandwidths per communicator, from the logs of NCCL's inspector.
//!
//! ```text
//! rank 0   |======== AllReduce 7 ========|    the kernel waits inside for the last rank,
//! rank 1            |=== AllReduce 7 ====|    so the shortest time is the transfer's
//! ```
//! Numbers count the calls of one name in a communicator, so they identify the calls of all ranks
//! that form one collective. Clocks are not needed. Bandwidths follow nccl-tests, with sizes as in
//! `inspectorComputeOpBw` (`inspector.cc`). O(calls log calls).

use etlink_formats::nccl_inspector::{InspectorLog, TimingSource};
use etlink_model::{CollectiveKind, NameId, UnixNs};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Figures from the logs of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommunicatorReport {
    /// Number of processes with a log.
    pub processes: u64,
    /// Totals per communicator, kind and size.
    pub sizes: Vec<CommunicatorSize>,
    /// Totals per rank of each communicator.
    pub members: Vec<CommunicatorMember>,
}

/// Collectives or messages of one kind and size in a communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommunicatorSize {
    /// Hash by which the ranks identify the communicator.
    pub communicator: String,
    /// Name of the communicator; empty if it has none.
    pub name: String,
    /// Number of ranks in the communicator.
    pub ranks: u64,
    /// Number of machines of the communicator.
    pub nodes: u64,
    /// `all_reduce`, `send`, …
    pub kind: &'static str,
    /// Bytes that a rank contributes to each.
    pub bytes: u64,
    /// Number of collectives, each counted once.
    pub times: u64,
    /// Number of ranks with a log; 1 for messages.
    pub logged_ranks: u64,
    /// Mean of the shortest times, ns: from the last rank's arrival to the end.
    pub mean_transfer_ns: i64,
    /// Longest of the shortest times, ns.
    pub max_transfer_ns: i64,
    /// Mean difference between the first and the last rank's time, ns; `None` if only one rank has
    /// a log.
    pub mean_skew_ns: Option<i64>,
    /// Bytes over time of all together, GB/s.
    pub algorithm_bandwidth: Option<f64>,
    /// Bandwidth as the load of a link, GB/s.
    pub bus_bandwidth: Option<f64>,
    /// Source of the times: the least reliable of all calls.
    pub timing: TimingSource,
}

/// Totals of a rank in a communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CommunicatorMember {
    /// Hash of the communicator.
    pub communicator: String,
    /// Name of the communicator.
    pub name: String,
    /// Rank within the communicator.
    pub rank: i64,
    /// Machine of the rank.
    pub host: String,
    /// Process id of the rank.
    pub pid: i64,
    /// Number of collectives that are also in the logs of other ranks.
    pub collectives: u64,
    /// Number of these in which the rank took the shortest time: the others waited for it.
    pub last: u64,
    /// Time by which the rank took longer than the last rank of each collective, ns.
    pub waited_ns: i64,
    /// Time of all calls, ns.
    pub total_ns: i64,
}

/// A collective, over the ranks that have a log.
struct LoggedCollective {
    bytes: u64,
    timing: TimingSource,
    /// Rank and its time in ns, per rank.
    sides: Vec<(i64, i64)>,
}

/// Running totals for one kind and size in a communicator.
#[derive(Default)]
struct SizeSum {
    times: u64,
    logged: BTreeSet<i64>,
    transfer_ns: i64,
    max_ns: i64,
    skew_ns: i64,
    /// Number of collectives in the logs of several ranks.
    shared: u64,
    timing: Option<TimingSource>,
}

/// Communicator, kind, bytes.
type SizeKey = (u32, CollectiveKind, u64);

/// Key of a call in a rank's log: communicator, kind, rank, peer, number, and the time at which its
/// line was written, because messages in old logs have no numbers.
type LoggedCall = (u32, CollectiveKind, i64, i64, u64, UnixNs);

/// Totals the logs of all processes of a run.
pub fn communicator_report(logs: &[InspectorLog]) -> CommunicatorReport {
    let mut shared = SharedIds::default();
    let mut members: BTreeMap<(u32, i64), CommunicatorMember> = BTreeMap::new();
    let mut collectives: FxHashMap<(u32, CollectiveKind, u64), LoggedCollective> =
        FxHashMap::default();
    let mut sums: BTreeMap<SizeKey, SizeSum> = BTreeMap::new();
    let mut known: FxHashSet<LoggedCall> = FxHashSet::default();
    for log in logs {
        let ids: Vec<u32> = log
            .communicators
            .iter()
            .map(|one| shared.id_of(&one.id, &one.name, one.ranks, one.nodes))
            .collect();
        let kinds: Vec<CollectiveKind> = log.names.iter().map(CollectiveKind::from_name).collect();
        let kind_of = |name: NameId| kinds.get(name.index()).copied();
        for call in 0..log.calls.len() {
            let place = log.calls.communicator[call] as usize;
            let (Some(own), Some(&id)) = (log.communicators.get(place), ids.get(place)) else {
                continue;
            };
            let kind = kind_of(log.calls.name[call]).unwrap_or(CollectiveKind::Other);
            let (peer, number) = (log.calls.peer[call], log.calls.number[call]);
            let written = log.calls.written[call];
            // duplicate logs contain the same calls
            if !known.insert((id, kind, own.rank, peer, number, written)) {
                continue;
            }
            let ns = log.calls.duration[call].0;
            let member = members
                .entry((id, own.rank))
                .or_insert_with(|| CommunicatorMember {
                    communicator: own.id.clone(),
                    name: own.name.clone(),
                    rank: own.rank,
                    host: own.host.clone(),
                    pid: own.pid,
                    ..CommunicatorMember::default()
                });
            member.total_ns = member.total_ns.saturating_add(ns);
            let (bytes, timing) = (log.calls.bytes[call], log.calls.timing[call]);
            if peer >= 0 {
                // each side of a message has its own number
                let side = LoggedCollective {
                    bytes,
                    timing,
                    sides: vec![(own.rank, ns)],
                };
                add_to(&mut sums, (id, kind), &side);
                continue;
            }
            let key = (id, kind, number);
            let collective = collectives.entry(key).or_insert_with(|| LoggedCollective {
                bytes,
                timing,
                sides: vec![],
            });
            collective.sides.push((own.rank, ns));
            collective.bytes = collective.bytes.max(bytes);
            collective.timing = collective.timing.max(timing);
        }
    }
    let mut ordered: Vec<_> = collectives.into_iter().collect();
    ordered.sort_by_key(|(key, _)| *key);
    for ((id, kind, _), collective) in &mut ordered {
        // a rank takes part in a collective once
        collective.sides.sort_unstable();
        collective.sides.dedup_by_key(|(rank, _)| *rank);
        add_to(&mut sums, (*id, *kind), collective);
        charge_members(&mut members, *id, collective);
    }
    let processes: BTreeSet<(&str, i64)> = logs
        .iter()
        .flat_map(|log| &log.communicators)
        .map(|one| (one.host.as_str(), one.pid))
        .collect();
    CommunicatorReport {
        processes: processes.len() as u64,
        sizes: sums
            .iter()
            .map(|(key, sum)| size_record(&shared, *key, sum))
            .collect(),
        members: members.into_values().collect(),
    }
}

fn add_to(
    sums: &mut BTreeMap<SizeKey, SizeSum>,
    (id, kind): (u32, CollectiveKind),
    collective: &LoggedCollective,
) {
    let times = collective.sides.iter().map(|(_, ns)| *ns);
    let (Some(shortest), Some(longest)) = (times.clone().min(), times.max()) else {
        return;
    };
    let sum = sums.entry((id, kind, collective.bytes)).or_default();
    sum.times += 1;
    sum.logged
        .extend(collective.sides.iter().map(|(rank, _)| *rank));
    sum.transfer_ns = sum.transfer_ns.saturating_add(shortest);
    sum.max_ns = sum.max_ns.max(shortest);
    if collective.sides.len() > 1 {
        sum.shared += 1;
        sum.skew_ns = sum.skew_ns.saturating_add(longest - shortest);
    }
    sum.timing = sum.timing.max(Some(collective.timing));
}

/// Charges the last rank of a collective, and counts the others' waits.
fn charge_members(
    members: &mut BTreeMap<(u32, i64), CommunicatorMember>,
    id: u32,
    collective: &LoggedCollective,
) {
    // a single log does not show whether its rank waited
    if collective.sides.len() < 2 {
        return;
    }
    let last = collective
        .sides
        .iter()
        .min_by_key(|(rank, ns)| (*ns, *rank));
    let Some(&(last, shortest)) = last else {
        return;
    };
    for &(rank, ns) in &collective.sides {
        if let Some(member) = members.get_mut(&(id, rank)) {
            member.collectives += 1;
            member.last += u64::from(rank == last);
            member.waited_ns = member.waited_ns.saturating_add(ns - shortest);
        }
    }
}

fn size_record(shared: &SharedIds, key: SizeKey, sum: &SizeSum) -> CommunicatorSize {
    let (id, kind, bytes) = key;
    let own = shared.all.get(id as usize).cloned().unwrap_or_default();
    let times = i64::try_from(sum.times).unwrap_or(i64::MAX).max(1);
    let shares = i64::try_from(sum.shared).unwrap_or(i64::MAX);
    let factors = bandwidth_factors(kind, own.ranks);
    // bytes per nanosecond are GB/s
    let algorithm_bandwidth = match factors {
        Some((parts, _)) if sum.transfer_ns > 0 && bytes > 0 => {
            Some(parts * bytes as f64 * sum.times as f64 / sum.transfer_ns as f64)
        }
        _ => None,
    };
    CommunicatorSize {
        communicator: own.id,
        name: own.name,
        ranks: own.ranks,
        nodes: own.nodes,
        kind: kind.name(),
        bytes,
        times: sum.times,
        logged_ranks: sum.logged.len() as u64,
        mean_transfer_ns: sum.transfer_ns / times,
        max_transfer_ns: sum.max_ns,
        mean_skew_ns: (shares > 0).then(|| sum.skew_ns / shares.max(1)),
        algorithm_bandwidth,
        bus_bandwidth: algorithm_bandwidth
            .zip(factors)
            .map(|(bandwidth, (_, factor))| bandwidth * factor),
        timing: sum.timing.unwrap_or_default(),
    }
}

/// Returns the multiple of a rank's bytes that counts as transferred, and the bus factor; `None` if
/// nccl-tests has none.
fn bandwidth_factors(kind: CollectiveKind, ranks: u64) -> Option<(f64, f64)> {
    let count = ranks.max(1) as f64;
    let part = (count - 1.0) / count;
    Some(match kind {
        CollectiveKind::AllReduce => (1.0, 2.0 * part),
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter => (count, part),
        CollectiveKind::Reduce
        | CollectiveKind::Broadcast
        | CollectiveKind::Send
        | CollectiveKind::Recv => (1.0, 1.0),
        _ => return None,
    })
}

/// Communicators of all processes, without duplicates.
#[derive(Default)]
struct SharedIds {
    all: Vec<SharedCommunicator>,
    known: FxHashMap<String, u32>,
}

#[derive(Clone, Default)]
struct SharedCommunicator {
    id: String,
    name: String,
    ranks: u64,
    nodes: u64,
}

impl SharedIds {
    fn id_of(&mut self, id: &str, name: &str, ranks: u64, nodes: u64) -> u32 {
        if let Some(place) = self.known.get(id) {
            return *place;
        }
        let place = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.known.insert(id.to_owned(), place);
        self.all.push(SharedCommunicator {
            id: id.to_owned(),
            name: name.to_owned(),
            ranks,
            nodes,
        });
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(rank: i64, calls: &[(&str, u64, u64, u64)]) -> InspectorLog {
        let mut text = String::new();
        for (name, number, bytes, us) in calls {
            text += &format!(
                concat!(
                    r#"{{"header":{{"id":"0x1","rank":{},"n_ranks":4,"nnodes":1}},"#,
                    r#""metadata":{{"hostname":"a","pid":{}}},"coll_perf":{{"coll":"{}","#,
                    r#""coll_sn":{},"coll_msg_size_bytes":{},"coll_exec_time_us":{},"#,
                    r#""coll_timing_source":"kernel_gpu"}}}}"#,
                    "\n"
                ),
                rank, rank, name, number, bytes, us
            );
        }
        etlink_formats::nccl_inspector::read(text.as_bytes()).expect("a log")
    }

    #[test]
    fn the_shortest_time_is_the_transfer() {
        let report = communicator_report(&[
            log_of(
                0,
                &[
                    ("AllReduce", 1, 4_000_000, 100),
                    ("AllReduce", 2, 4_000_000, 40),
                ],
            ),
            log_of(
                1,
                &[
                    ("AllReduce", 1, 4_000_000, 40),
                    ("AllReduce", 2, 4_000_000, 60),
                ],
            ),
        ]);
        let [size] = &report.sizes[..] else {
            panic!("{:?}", report.sizes)
        };
        assert_eq!((size.times, size.logged_ranks, size.ranks), (2, 2, 4));
        assert_eq!(
            (size.mean_transfer_ns, size.mean_skew_ns),
            (40_000, Some(40_000))
        );
        // 4 MB in 40 us are 100 GB/s; with four ranks, a link carries 1.5 times that
        assert_eq!(size.algorithm_bandwidth, Some(100.0));
        assert_eq!(size.bus_bandwidth, Some(150.0));
        assert_eq!((report.members[0].last, report.members[1].last), (1, 1));
        assert_eq!(
            (report.members[0].waited_ns, report.members[1].waited_ns),
            (60_000, 20_000)
        );
        assert_eq!(report.processes, 2);
    }

    #[test]
    fn one_log_knows_no_skew() {
        let report = communicator_report(&[log_of(0, &[("AllGather", 1, 1_000_000, 10)])]);
        assert_eq!(report.sizes[0].mean_skew_ns, None);
        // four times the bytes that each rank contributes
        assert_eq!(report.sizes[0].algorithm_bandwidth, Some(400.0));
        assert_eq!(report.sizes[0].bus_bandwidth, Some(300.0));
        assert_eq!(report.members[0].collectives, 0);
    }

    #[test]
    fn kinds_and_sizes_are_apart() {
        let calls = [
            ("AllReduce", 1, 8192, 10),
            ("AllReduce", 2, 16_384, 10),
            ("ReduceScatter", 1, 8192, 10),
        ];
        let report = communicator_report(&[log_of(0, &calls), log_of(0, &calls)]);
        let said: Vec<_> = report
            .sizes
            .iter()
            .map(|one| (one.kind, one.bytes, one.times))
            .collect();
        assert_eq!(
            said,
            [
                ("all_reduce", 8192, 1),
                ("all_reduce", 16_384, 1),
                ("reduce_scatter", 8192, 1)
            ]
        );
    }

    #[test]
    fn a_log_that_is_there_twice_counts_once() {
        let text = |number: u64, peer: u64| {
            format!(
                concat!(
                    r#"{{"header":{{"id":"0x1","rank":0,"n_ranks":4,"nnodes":1}},"#,
                    r#""metadata":{{"hostname":"a","pid":1}},"p2p_perf":{{"p2p":"Send","#,
                    r#""p2p_sn":{},"p2p_peer":{},"p2p_msg_size_bytes":64,"#,
                    r#""p2p_exec_time_us":10,"p2p_timing_source":"kernel_gpu"}}}}"#,
                    "\n"
                ),
                number, peer
            )
        };
        let messages = [text(0, 1), text(1, 1), text(0, 2)].concat();
        let log = || etlink_formats::nccl_inspector::read(messages.as_bytes()).expect("a log");
        let once = communicator_report(&[log(), log_of(0, &[("AllReduce", 1, 8, 10)])]);
        let reduces = || log_of(0, &[("AllReduce", 1, 8, 10)]);
        let twice = communicator_report(&[log(), log(), reduces(), reduces()]);
        let sends = twice.sizes.iter().find(|size| size.kind == "send");
        assert_eq!(sends.map(|size| size.times), Some(3));
        assert_eq!(twice, once);
    }
}
