//! Converts between types of collectives in Chakra and in the traces.

use crate::proto::CollectiveCommType;
use crate::read::CommAttrs;
use etlink_model::CollectiveKind;

/// Returns the kind of a collective of this type, as in the traces.
pub fn collective_kind(comm_type: CollectiveCommType) -> CollectiveKind {
    match comm_type {
        CollectiveCommType::AllReduce => CollectiveKind::AllReduce,
        CollectiveCommType::Reduce => CollectiveKind::Reduce,
        CollectiveCommType::AllGather => CollectiveKind::AllGather,
        CollectiveCommType::Gather => CollectiveKind::Gather,
        CollectiveCommType::Scatter => CollectiveKind::Scatter,
        CollectiveCommType::Broadcast => CollectiveKind::Broadcast,
        CollectiveCommType::AllToAll => CollectiveKind::AllToAll,
        CollectiveCommType::ReduceScatter | CollectiveCommType::ReduceScatterBlock => {
            CollectiveKind::ReduceScatter
        }
        CollectiveCommType::Barrier => CollectiveKind::Barrier,
    }
}

/// Returns the type of a collective; `None` if Chakra has none, as for messages and unknown kinds.
pub fn comm_type(kind: CollectiveKind) -> Option<CollectiveCommType> {
    match kind {
        CollectiveKind::AllReduce => Some(CollectiveCommType::AllReduce),
        CollectiveKind::Reduce => Some(CollectiveCommType::Reduce),
        CollectiveKind::AllGather => Some(CollectiveCommType::AllGather),
        CollectiveKind::Gather => Some(CollectiveCommType::Gather),
        CollectiveKind::Scatter => Some(CollectiveCommType::Scatter),
        CollectiveKind::Broadcast => Some(CollectiveCommType::Broadcast),
        CollectiveKind::AllToAll => Some(CollectiveCommType::AllToAll),
        CollectiveKind::ReduceScatter => Some(CollectiveCommType::ReduceScatter),
        CollectiveKind::Barrier => Some(CollectiveCommType::Barrier),
        // Messages are nodes of other types, which have no `comm_type`.
        CollectiveKind::Send | CollectiveKind::Recv | CollectiveKind::Other => None,
    }
}

impl CommAttrs {
    /// Returns `comm_type` as one of the schema's types; `None` if it is absent or unknown.
    pub fn collective_type(&self) -> Option<CollectiveCommType> {
        // The attribute may be any kind of integer; the enum of the schema has 32 bits.
        let number = i32::try_from(self.comm_type?).ok()?;
        CollectiveCommType::try_from(number).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_comes_back() {
        for number in 0..10 {
            let known = CollectiveCommType::try_from(number).expect("a type of the schema");
            let back = comm_type(collective_kind(known)).expect("a collective");
            // The traces do not distinguish the two kinds of reduce-scatter.
            let want = match known {
                CollectiveCommType::ReduceScatterBlock => CollectiveCommType::ReduceScatter,
                other => other,
            };
            assert_eq!(back, want);
        }
    }

    #[test]
    fn a_number_without_a_type_is_none() {
        for number in [-1, 10, i64::MAX] {
            let comm = CommAttrs {
                comm_type: Some(number),
                ..CommAttrs::default()
            };
            assert_eq!(comm.collective_type(), None, "{number}");
        }
    }
}
