//! Checks ASTRA-sim's requirements on communication nodes.

use super::example;
use crate::astra::limits::DATASET_SPLITS;
use crate::finding::{FindingKind, Findings};
use crate::proto::{CollectiveCommType, NodeType};
use crate::read::{ChakraGraph, CommAttrs};

pub(super) fn check(graph: &ChakraGraph, findings: &mut Findings) {
    for index in 0..graph.len() {
        let comm = graph.comm_of(index);
        let mut faults = match graph.node_type[index] {
            NodeType::CommCollNode => check_collective(&comm, graph.duration_ns[index]),
            NodeType::CommSendNode => point_to_point(&comm, comm.dst),
            NodeType::CommRecvNode => point_to_point(&comm, comm.src),
            _ => continue,
        };
        // ASTRA-sim throws at a communication node that `is_cpu_op` assigns to the host.
        if graph.is_cpu_op[index] == Some(true) {
            faults.push(FindingKind::CommOnCpu);
        }
        for kind in faults {
            findings.note(kind, || example(graph, index, detail(kind, &comm)));
        }
    }
}

fn check_collective(comm: &CommAttrs, duration_ns: i64) -> Vec<FindingKind> {
    let kind = comm.comm_type.map(|_| comm.collective_type());
    let gathers = kind == Some(Some(CollectiveCommType::AllGather));
    let mut faults = vec![];
    match kind {
        None => faults.push(FindingKind::NoCommType),
        Some(Some(CollectiveCommType::Broadcast)) => {
            if duration_ns == 0 {
                faults.push(FindingKind::InstantBroadcast);
            }
        }
        Some(Some(
            CollectiveCommType::AllReduce
            | CollectiveCommType::AllGather
            | CollectiveCommType::AllToAll
            | CollectiveCommType::ReduceScatter,
        )) => {}
        Some(_) => faults.push(FindingKind::UnsupportedCommType),
    }
    match comm.size {
        None => faults.push(FindingKind::NoCommSize),
        // ASTRA-sim loops forever over pieces of zero bytes.
        Some(size) if gathers && size < DATASET_SPLITS => faults.push(FindingKind::SmallAllGather),
        Some(..=0) => faults.push(FindingKind::ZeroCommSize),
        Some(_) => {}
    }
    faults
}

fn point_to_point(comm: &CommAttrs, peer: Option<i64>) -> Vec<FindingKind> {
    let mut faults = vec![];
    if peer.is_none() {
        faults.push(FindingKind::NoPeer);
    }
    match comm.size {
        None => faults.push(FindingKind::NoCommSize),
        Some(..=0) => faults.push(FindingKind::ZeroCommSize),
        Some(_) => {}
    }
    faults
}

fn detail(kind: FindingKind, comm: &CommAttrs) -> String {
    match (kind, comm.comm_type, comm.size) {
        (FindingKind::UnsupportedCommType, Some(number), _) => {
            let known = comm.collective_type();
            known.map_or_else(
                || number.to_string(),
                |known| known.as_str_name().to_owned(),
            )
        }
        (FindingKind::ZeroCommSize | FindingKind::SmallAllGather, _, Some(size)) => {
            size.to_string()
        }
        _ => String::new(),
    }
}
