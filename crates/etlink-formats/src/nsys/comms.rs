//! Communication records from NCCL and MPI ranges.

use etlink_model::{Collective, CollectiveKind, DeviceTrace};
use rustc_hash::FxHashMap;

/// Communication facts stated by a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommFacts {
    /// Bytes that this rank contributes.
    pub(crate) input: u64,
    /// Bytes that this rank receives.
    pub(crate) output: u64,
    /// True if the report states the byte counts; otherwise both are 0.
    pub(crate) is_sized: bool,
    /// Rank in the group of the root, or of the other side of a message.
    pub(crate) peer: Option<i64>,
    pub(crate) communicator: Option<u64>,
    pub(crate) asynchronous: bool,
}

/// Communicators of a process, collected while its ranges are read.
#[derive(Debug, Default)]
pub(crate) struct Communicators {
    /// Number of members by communicator, if stated.
    pub(crate) sizes: FxHashMap<u64, u64>,
    /// Global ranks by communicator, as list text.
    pub(crate) members: FxHashMap<u64, String>,
    /// Record row and communicator of each record.
    used: Vec<(u32, u64)>,
}

impl Communicators {
    /// Appends a record and returns its row; `u32::MAX` if `kind` is not a communication.
    pub(crate) fn push_record(
        &mut self,
        trace: &mut DeviceTrace,
        kind: CollectiveKind,
        facts: CommFacts,
    ) -> u32 {
        if kind == CollectiveKind::Other {
            return u32::MAX;
        }
        let peer = facts.peer.unwrap_or(-1);
        let record = Collective {
            name: trace.names.intern(kind.name()),
            // Sizes are stated in bytes, not in elements of a type. A record without a type has an
            // unknown size.
            dtype: trace.names.intern(if facts.is_sized { "Byte" } else { "" }),
            in_elements: facts.input,
            out_elements: facts.output,
            rank: peer,
            asynchronous: facts.asynchronous,
            ..Collective::absent()
        };
        trace.collectives.push(record);
        let row = u32::try_from(trace.collectives.len() - 1).unwrap_or(u32::MAX);
        self.used.extend(facts.communicator.map(|used| (row, used)));
        row
    }

    /// Returns the communicator of the process if it uses only one.
    pub(crate) fn only_one(&self) -> Option<u64> {
        let (_, first) = self.used.first()?;
        let is_only = self.used.iter().all(|(_, used)| used == first);
        is_only.then_some(*first)
    }

    /// Writes size and members of their group into the records. With `named`, the communicator id
    /// is written even if the process uses only one.
    pub(crate) fn finish(self, trace: &mut DeviceTrace, named: bool) {
        let named = named || self.only_one().is_none();
        let records = &mut trace.collectives;
        for (row, communicator) in &self.used {
            let row = *row as usize;
            if let Some(size) = self.sizes.get(communicator) {
                records.group_size[row] = *size;
            }
            if let Some(members) = self.members.get(communicator) {
                records.group_ranks[row] = trace.names.intern(members);
            } else if named {
                records.comms_id[row] = trace.names.intern(&format!("{communicator:#x}"));
            }
        }
    }
}

/// Returns the kind of an NCCL function such as `ncclAllReduce`.
pub(crate) fn nccl_kind(name: &str) -> CollectiveKind {
    // `ncclGroupStart`, `ncclCommSplit` and similar functions start no communication.
    let is_housekeeping = ["ncclGroup", "ncclComm", "ncclGet", "ncclMem", "ncclRedOp"]
        .iter()
        .any(|prefix| name.starts_with(prefix));
    if is_housekeeping {
        CollectiveKind::Other
    } else {
        CollectiveKind::from_name(name)
    }
}

/// Returns the kind of an MPI function such as `MPI_Allreduce`.
pub(crate) fn mpi_kind(name: &str) -> CollectiveKind {
    let Some(function) = name.strip_prefix("MPI_") else {
        return CollectiveKind::Other;
    };
    let function = function.to_ascii_lowercase();
    let others = ["comm_", "win_", "file_", "type_", "op_", "group_", "cart_"];
    // A persistent request (`MPI_Send_init`) communicates only when started.
    if others.iter().any(|prefix| function.starts_with(prefix)) || function.ends_with("_init") {
        return CollectiveKind::Other;
    }
    match function.as_str() {
        "bcast" | "ibcast" => CollectiveKind::Broadcast,
        _ => CollectiveKind::from_name(&function),
    }
}

/// Returns true if an MPI function returns before its communication is done.
pub(crate) fn is_immediate(name: &str) -> bool {
    name.strip_prefix("MPI_I")
        .is_some_and(|rest| !rest.starts_with("nit"))
}

/// Returns the bytes this rank contributes and receives. `size` is per rank for collectives, as
/// NCCL (`collectives.cc`) and MPI count it; `ranks` is the size of the group, 0 if unknown.
pub(crate) fn input_and_output(kind: CollectiveKind, size: u64, ranks: u64) -> (u64, u64) {
    let all = size.saturating_mul(ranks.max(1));
    match kind {
        CollectiveKind::AllGather => (size, all),
        CollectiveKind::ReduceScatter => (all, size),
        CollectiveKind::Send => (size, 0),
        CollectiveKind::Recv => (0, size),
        _ => (size, size),
    }
}

/// Returns rank names as list text; `None` if the text contains none.
pub(crate) fn member_list(text: &str) -> Option<String> {
    let digits = text.split(|c: char| !c.is_ascii_digit());
    let members: Vec<&str> = digits.filter(|part| !part.is_empty()).collect();
    // A list with more ranks than any job has is damaged.
    let fits = (1..=1 << 20).contains(&members.len());
    fits.then(|| format!("[{}]", members.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_both_libraries() {
        for (name, kind) in [
            ("MPI_Allreduce", CollectiveKind::AllReduce),
            ("MPI_Iallgatherv", CollectiveKind::AllGather),
            ("MPI_Bcast", CollectiveKind::Broadcast),
            ("MPI_Reduce_scatter_block", CollectiveKind::ReduceScatter),
            ("MPI_Isend", CollectiveKind::Send),
            ("MPI_Recv", CollectiveKind::Recv),
            ("MPI_Recv_init", CollectiveKind::Other),
            ("MPI_Sendrecv", CollectiveKind::Other),
            ("MPI_Init", CollectiveKind::Other),
            ("MPI_Comm_split", CollectiveKind::Other),
            ("MPI_Wait", CollectiveKind::Other),
            ("MPI_Barrier", CollectiveKind::Barrier),
        ] {
            assert_eq!(mpi_kind(name), kind, "{name}");
        }
        assert_eq!(nccl_kind("ncclAllGather"), CollectiveKind::AllGather);
        assert_eq!(nccl_kind("ncclGroupEnd"), CollectiveKind::Other);
        assert_eq!(nccl_kind("ncclCommInitRank"), CollectiveKind::Other);
        assert!(is_immediate("MPI_Irecv"));
        assert!(!is_immediate("MPI_Init"));
    }

    #[test]
    fn sizes_that_a_rank_gives_and_gets() {
        for (kind, sizes) in [
            (CollectiveKind::AllGather, (10, 40)),
            (CollectiveKind::ReduceScatter, (40, 10)),
            (CollectiveKind::AllReduce, (10, 10)),
            (CollectiveKind::Send, (10, 0)),
            (CollectiveKind::Recv, (0, 10)),
        ] {
            assert_eq!(input_and_output(kind, 10, 4), sizes, "{kind:?}");
        }
        // a group of unknown size has at least one rank
        let unknown = input_and_output(CollectiveKind::AllGather, 10, 0);
        assert_eq!(unknown, (10, 10));
    }

    #[test]
    fn members_of_any_spelling() {
        assert_eq!(member_list("0,1,2").as_deref(), Some("[0, 1, 2]"));
        assert_eq!(member_list("[4 5]").as_deref(), Some("[4, 5]"));
        assert_eq!(member_list(""), None);
    }
}
