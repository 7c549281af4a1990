//! Decides which nodes communicate in terms of simulators.
//!
//! ASTRA-sim runs all-reduce, all-gather, broadcast, all-to-all, reduce-scatter, send and receive;
//! anything else throws or never ends. A communication it would not run becomes computation with
//! the measured duration, and the reason is counted.

use crate::astra::limits::DATASET_SPLITS;
use crate::proto::CollectiveCommType;
use crate::{CommDecision, Demotion, WriteOptions};
use etlink_link::ranks::GroupResolver;
use etlink_link::{CollectiveRef, LinkedTrace};
use etlink_model::{CollectiveKind, GlobalRank, NameId, NodeIdx, dtype_bytes};
use std::borrow::Cow;

/// Simulated form of a communication node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SimulatedComm<'t> {
    /// COMM_COLL_NODE.
    Collective {
        kind: CollectiveCommType,
        bytes: i64,
        /// Value of `pg_name`; `None` for all ranks.
        group: Option<Cow<'t, str>>,
    },
    /// COMM_SEND_NODE or COMM_RECV_NODE; ranks are global.
    PointToPoint {
        send: bool,
        peer: i64,
        own: Option<i64>,
        bytes: i64,
    },
}

impl SimulatedComm<'_> {
    /// Returns the name of the node: kind and group, or peer.
    pub(crate) fn name(&self) -> String {
        match self {
            SimulatedComm::Collective { kind, group, .. } => {
                let kind = kind.as_str_name().to_ascii_lowercase();
                match group {
                    None => kind,
                    Some(name) => format!("{kind}, group {name}"),
                }
            }
            SimulatedComm::PointToPoint {
                send: true, peer, ..
            } => format!("send to {peer}"),
            SimulatedComm::PointToPoint { peer, .. } => format!("recv from {peer}"),
        }
    }
}

/// Returns the communication of node `index`; `None` if the node does not communicate. Only one
/// slice of an op communicates.
pub(crate) fn comm_of<'t>(
    trace: &'t LinkedTrace,
    groups: &GroupResolver<'_>,
    options: &WriteOptions<'t>,
    index: NodeIdx,
) -> Option<Result<SimulatedComm<'t>, Demotion>> {
    let node = trace.nodes.get(index);
    if !trace.is_communication(&node) {
        return None;
    }
    // Later slices of a collective are its waits, and would communicate a second time.
    let Some(record) = trace.collective(&node) else {
        return Some(Err(Demotion::NoRecord));
    };
    let comm = classify(trace, groups, &record);
    Some(match options.agreement {
        Some(agreement) => {
            comm.and_then(|comm| apply_decision(comm, agreement.decision_for(index)))
        }
        None => comm,
    })
}

/// Applies the decision of all ranks to a communication.
fn apply_decision<'t>(
    mut comm: SimulatedComm<'t>,
    decision: CommDecision,
) -> Result<SimulatedComm<'t>, Demotion> {
    let (number, size) = match decision {
        CommDecision::Compute(reason) => return Err(reason),
        CommDecision::Communication { group, bytes } => (group, bytes),
    };
    match &mut comm {
        SimulatedComm::Collective { bytes, group, .. } => {
            (*bytes, *group) = (size, number.map(|number| number.to_string().into()))
        }
        SimulatedComm::PointToPoint { bytes, .. } => *bytes = size,
    }
    Ok(comm)
}

/// Classifies a record, or returns the reason why it becomes computation. Sizes are this rank's
/// input: its shard for an all-gather, everything for a reduce-scatter.
fn classify<'t>(
    trace: &'t LinkedTrace,
    groups: &GroupResolver<'_>,
    record: &CollectiveRef<'t>,
) -> Result<SimulatedComm<'t>, Demotion> {
    let kind = match record.kind() {
        CollectiveKind::AllReduce => CollectiveCommType::AllReduce,
        CollectiveKind::AllGather => CollectiveCommType::AllGather,
        CollectiveKind::Broadcast => CollectiveCommType::Broadcast,
        CollectiveKind::AllToAll => CollectiveCommType::AllToAll,
        CollectiveKind::ReduceScatter => CollectiveCommType::ReduceScatter,
        CollectiveKind::Send | CollectiveKind::Recv => {
            return point_to_point(trace, groups, record);
        }
        CollectiveKind::Reduce
        | CollectiveKind::Gather
        | CollectiveKind::Scatter
        | CollectiveKind::Barrier => return Err(Demotion::NoSimulatorType),
        CollectiveKind::Other => return Err(Demotion::UnknownType),
    };
    let bytes = message_bytes(record).or_else(|none| {
        // A rank that sends nothing in an uneven all-to-all still receives.
        let own = own_rank(trace).ok_or(none)?;
        even_bytes(groups, record, own).ok_or(none)
    })?;
    // ASTRA-sim loops forever over pieces of zero bytes.
    if kind == CollectiveCommType::AllGather && bytes < DATASET_SPLITS {
        return Err(Demotion::NoData);
    }
    // A group of one rank never finishes in ASTRA-sim.
    if one_rank(groups, record) {
        return Err(Demotion::OneRank);
    }
    let name = record.names.get(record.record.group_name);
    // Without `pg_name`, ASTRA-sim uses all ranks and needs no `comm_group.json`.
    let all = name.is_empty() || groups.is_world(record);
    Ok(SimulatedComm::Collective {
        kind,
        bytes,
        group: (!all).then_some(name.into()),
    })
}

fn message_bytes(record: &CollectiveRef<'_>) -> Result<i64, Demotion> {
    let size = dtype_bytes(record.names.get(record.record.dtype)).ok_or(Demotion::UnknownDtype)?;
    // A damaged count of elements may be any number, so the product is checked.
    let bytes = record.record.in_elements.checked_mul(size);
    let bytes = bytes.and_then(|bytes| i64::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes > 0).ok_or(Demotion::NoData)
}

/// Returns the bytes that a rank of an uneven all-to-all sends to each rank of its group, and those
/// that it receives from each; `None` if the parts are unknown.
pub(crate) fn pair_bytes(
    groups: &GroupResolver<'_>,
    record: &CollectiveRef<'_>,
) -> Option<[Vec<u64>; 2]> {
    if record.kind() != CollectiveKind::AllToAll {
        return None;
    }
    let (names, of) = (record.names, &record.record);
    let size = u128::from(dtype_bytes(names.get(of.dtype))?);
    let ranks = groups.ranks(record)?.len();
    let in_bytes = |split: NameId, elements: u64| -> Option<Vec<u64>> {
        let parts: Vec<u64> = serde_json::from_str(names.get(split)).ok()?;
        let all: u128 = parts.iter().map(|part| u128::from(*part)).sum();
        if parts.len() != ranks || (all == 0) != (elements == 0) {
            return None;
        }
        let parts = parts.into_iter().map(|part| {
            // Damaged counts may be any numbers.
            let bytes = u128::from(part).checked_mul(u128::from(elements) * size)?;
            u64::try_from(bytes / all.max(1)).ok()
        });
        parts.collect()
    };
    Some([
        in_bytes(of.in_split, of.in_elements)?,
        in_bytes(of.out_split, of.out_elements)?,
    ])
}

/// Returns the size of the even all-to-all in which the link of rank `own` passes as many bytes as
/// in this one, whose parts differ; `None` if the parts are unknown. ASTRA-sim has one size for all
/// parts.
pub(crate) fn even_bytes(
    groups: &GroupResolver<'_>,
    record: &CollectiveRef<'_>,
    own: GlobalRank,
) -> Option<i64> {
    let parts = pair_bytes(groups, record)?;
    let own = u64::try_from(own.0).ok()?;
    let mut ranks = groups.ranks(record)?.into_iter();
    let place = ranks.position(|rank| rank == own)?;
    let for_others = |parts: &Vec<u64>| {
        let all: u128 = parts.iter().map(|part| u128::from(*part)).sum();
        all - u128::from(parts[place])
    };
    let busiest = parts.iter().map(for_others).max()?;
    let others = (parts[0].len() as u128)
        .checked_sub(1)
        .filter(|others| *others > 0)?;
    let part = busiest.div_ceil(others).max(1);
    i64::try_from(part.checked_mul(others + 1)?).ok()
}

/// Returns the rank of a trace. The rank known to the caller takes precedence; a device trace need
/// not state it.
fn own_rank(trace: &LinkedTrace) -> Option<GlobalRank> {
    trace.report.rank.or(trace.device.header.rank)
}

fn one_rank(groups: &GroupResolver<'_>, record: &CollectiveRef<'_>) -> bool {
    // Records before 1.0.3 do not state the size; the list of groups may have it.
    match record.record.group_size {
        0 => groups.ranks(record).is_some_and(|ranks| ranks.len() == 1),
        size => size == 1,
    }
}

fn point_to_point<'t>(
    trace: &LinkedTrace,
    groups: &GroupResolver<'_>,
    record: &CollectiveRef<'_>,
) -> Result<SimulatedComm<'t>, Demotion> {
    let send = record.kind() == CollectiveKind::Send;
    let bytes = message_bytes(record)?;
    let own = own_rank(trace).map(|rank| rank.0);
    let peer = groups.peer(record).ok_or(Demotion::UnknownPeer)?.0;
    // `comm_src` and `comm_dst` are int32 in Chakra's feeder.
    if i32::try_from(peer).is_err() {
        return Err(Demotion::UnknownPeer);
    }
    if own == Some(peer) {
        return Err(Demotion::OwnPeer);
    }
    Ok(SimulatedComm::PointToPoint {
        send,
        peer,
        own,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::comm;
    use etlink_model::Collective;

    fn verdict(name: &str, change: impl FnOnce(&mut Collective)) -> Result<(u64, i64), Demotion> {
        let (trace, mut record) = comm(name, "BFloat16", 100);
        change(&mut record);
        let record = CollectiveRef {
            record,
            names: &trace.device.names,
        };
        let comm = classify(&trace, &GroupResolver::new(&trace), &record)?;
        Ok(match comm {
            SimulatedComm::Collective { kind, bytes, .. } => (kind as u64, bytes),
            SimulatedComm::PointToPoint {
                send, peer, bytes, ..
            } => (
                100 * (1 + u64::from(send)) + u64::try_from(peer).expect("rank"),
                bytes,
            ),
        })
    }

    /// Sizes come from the input in `record_param_comms`, for `*_coalesced` its sum: the buffer for
    /// all-reduce, all-to-all and broadcast, this rank's shard for all-gather, the whole input for
    /// reduce-scatter. Outputs have other sizes.
    #[test]
    fn kinds_and_sizes() {
        for (names, want) in [
            (
                &[
                    "allreduce",
                    "allreduce_coalesced",
                    "allreduce_sparse",
                    "all_reduce",
                ][..],
                Ok((0, 200)),
            ),
            (
                &[
                    "allgather",
                    "all_gather",
                    "_allgather_base",
                    "allgather_coalesced",
                    "all_gather_into_tensor",
                    "allgather_into_tensor_coalesced",
                ],
                Ok((2, 200)),
            ),
            (&["broadcast", "_broadcast_oop"], Ok((5, 200))),
            (
                &["all_to_all", "all_to_allv", "alltoall_base", "alltoall"],
                Ok((6, 200)),
            ),
            (
                &[
                    "reduce_scatter",
                    "_reduce_scatter_base",
                    "_reduce_scatter_oop",
                    "reduce_scatter_tensor",
                    "reduce_scatter_tensor_coalesced",
                ],
                Ok((7, 200)),
            ),
            (&["send"], Ok((201, 200))),
            (&["recv"], Ok((101, 200))),
            (
                &["barrier", "reduce", "_reduce_oop", "gather", "scatter"],
                Err(Demotion::NoSimulatorType),
            ),
            (&["wait", "init"], Err(Demotion::UnknownType)),
        ] {
            for name in names {
                assert_eq!(
                    verdict(name, |record| record.out_elements = 900),
                    want,
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn sizes_are_in_bytes() {
        for (dtype, bytes) in [
            ("Bool", 100),
            ("Float8_e5m2", 100),
            ("Half", 200),
            ("Float", 400),
            ("Long", 800),
            ("ComplexDouble", 1_600),
        ] {
            let (trace, record) = comm("allreduce", dtype, 100);
            let found = classify(
                &trace,
                &GroupResolver::new(&trace),
                &CollectiveRef {
                    record,
                    names: &trace.device.names,
                },
            );
            assert!(
                matches!(
                    found,
                    Ok(SimulatedComm::Collective { bytes: found, .. }) if found == bytes
                ),
                "{dtype}: {found:?}"
            );
        }
    }

    /// Rank 1 of 4 keeps 30 of 100 elements and sends 70, receives 150 of 160, and takes as long as
    /// with parts of 50 elements.
    #[test]
    fn an_uneven_all_to_all_is_as_long_as_its_busiest_link() {
        let (mut trace, mut record) = comm("all_to_allv", "Float", 100);
        let mut parts = |sent: &str, received: &str| {
            record.out_elements = 160;
            (record.rank_start, record.rank_stride, record.group_size) = (0, 1, 4);
            record.in_split = trace.device.names.intern(sent);
            record.out_split = trace.device.names.intern(received);
            let names = &trace.device.names;
            let record = CollectiveRef { record, names };
            let groups = GroupResolver::new(&trace);
            let of_pairs = pair_bytes(&groups, &record);
            (even_bytes(&groups, &record, GlobalRank(1)), of_pairs)
        };
        let (even, of_pairs) = parts("[1, 3, 5, 1]", "[6, 1, 6, 3]");
        assert_eq!(even, Some(4 * 4 * 50));
        let sent = vec![40, 120, 200, 40];
        assert_eq!(of_pairs, Some([sent, vec![240, 40, 240, 120]]));
        for (sent, received) in [
            ("[]", "[6, 1, 6, 3]"),
            ("[0, 0, 0, 0]", "[6, 1, 6, 3]"),
            ("[1, 3, 5]", "[6, 1, 6, 3]"),
            ("[1, 3, 5, ...]", "[6, 1, 6, 3]"),
        ] {
            assert_eq!(parts(sent, received), (None, None), "{sent}");
        }
    }

    /// Rank 0 of 2 sends nothing and receives 6 of 10 elements from rank 1.
    #[test]
    fn a_rank_that_only_receives_takes_part_in_an_uneven_all_to_all() {
        let (mut trace, mut record) = comm("all_to_allv", "Float", 0);
        record.out_elements = 10;
        (record.rank_start, record.rank_stride, record.group_size) = (0, 1, 2);
        record.in_split = trace.device.names.intern("[0, 0]");
        record.out_split = trace.device.names.intern("[4, 6]");
        trace.device.header.rank = Some(GlobalRank(0));
        let bytes = |trace: &LinkedTrace, record: Collective| {
            let names = &trace.device.names;
            let record = CollectiveRef { record, names };
            match classify(trace, &GroupResolver::new(trace), &record) {
                Ok(SimulatedComm::Collective { bytes, .. }) => Ok(bytes),
                Ok(other) => panic!("{other:?}"),
                Err(reason) => Err(reason),
            }
        };
        assert_eq!(bytes(&trace, record), Ok(2 * 4 * 6));
        // Absurd counts of elements and parts are no size.
        record.out_elements = u64::MAX;
        record.out_split = trace.device.names.intern(&format!("[0, {}]", u64::MAX));
        assert_eq!(bytes(&trace, record), Err(Demotion::NoData));
    }

    #[test]
    fn what_would_not_run_is_computation() {
        assert_eq!(
            verdict("allreduce", |r| r.in_elements = 0),
            Err(Demotion::NoData)
        );
        assert_eq!(
            verdict("allreduce", |r| r.in_elements = u64::MAX),
            Err(Demotion::NoData)
        );
        assert_eq!(
            verdict("_allgather_base", |r| r.in_elements = 1),
            Err(Demotion::NoData)
        );
        assert_eq!(
            verdict("allreduce", |r| r.group_size = 1),
            Err(Demotion::OneRank)
        );
        assert_eq!(
            verdict("allreduce", |r| r.dtype = r.name),
            Err(Demotion::UnknownDtype)
        );
        assert_eq!(verdict("send", |r| r.rank = 0), Err(Demotion::OwnPeer));
        assert_eq!(verdict("send", |r| r.rank = 9), Err(Demotion::UnknownPeer));
        assert_eq!(verdict("send", |r| r.dst = 0), Err(Demotion::OwnPeer));
    }

    #[test]
    fn a_peer_in_the_group_is_a_global_rank() {
        assert_eq!(
            verdict("recv", |r| (r.rank_start, r.rank_stride) = (0, 4)),
            Ok((104, 200))
        );
        assert_eq!(
            verdict("recv", |r| (r.rank_start, r.src) = (-1, 7)),
            Ok((107, 200))
        );
        assert_eq!(
            verdict("recv", |r| r.rank_start = -1),
            Err(Demotion::UnknownPeer)
        );
    }

    #[test]
    fn only_groups_of_a_part_of_the_ranks_have_a_name() {
        let (mut trace, mut record) = comm("allreduce", "Float", 1);
        record.group_name = trace.device.names.intern("3");
        let group = |trace: &LinkedTrace| match classify(
            trace,
            &GroupResolver::new(trace),
            &CollectiveRef {
                record,
                names: &trace.device.names,
            },
        ) {
            Ok(SimulatedComm::Collective { group: None, .. }) => "all".to_owned(),
            Ok(SimulatedComm::Collective {
                group: Some(name), ..
            }) => name.into_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            group(&trace),
            "3",
            "a group of two of nobody knows how many"
        );
        trace.device.header.world_size = Some(2);
        assert_eq!(group(&trace), "all");
        trace.device.header.world_size = Some(8);
        assert_eq!(group(&trace), "3");
    }

    #[test]
    fn what_all_ranks_agreed_on_goes_first() {
        let comm = SimulatedComm::Collective {
            kind: CollectiveCommType::AllReduce,
            bytes: 8,
            group: Some("0".into()),
        };
        let settle = |fate| apply_decision(comm.clone(), fate);
        let want = SimulatedComm::Collective {
            kind: CollectiveCommType::AllReduce,
            bytes: 64,
            group: Some("2".into()),
        };
        assert_eq!(
            settle(CommDecision::Communication {
                group: Some(2),
                bytes: 64
            }),
            Ok(want)
        );
        assert_eq!(
            settle(CommDecision::Compute(Demotion::Unmatched)),
            Err(Demotion::Unmatched)
        );
    }
}
