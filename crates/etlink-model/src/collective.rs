//! Communication records of a trace: collectives, sends and receives.
//!
//! Sources: ET attributes of `record_param_comms` (schema 1.1.0 and later), its inputs in earlier
//! schemas, and Kineto's `Collective name` and related keys (`ParamCommsUtils.cpp`,
//! `output_json.cpp`).

use crate::columns::columns;
use crate::{NameId, Names};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};

/// A process group as the trace lists it.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessGroup {
    /// Group name (`pg_name`): a number. Ranks number groups with only some of the ranks
    /// differently.
    pub name: String,
    /// Group description (`pg_desc`): `default_pg`, `mesh_tp`, …
    pub desc: String,
    /// Backend of the group (`backend_config`).
    pub backend: String,
    /// Number of ranks; 0 = not stated.
    pub size: u64,
    /// Global ranks; empty = all ranks `0..size`.
    pub ranks: Vec<u64>,
}

columns! {
    /// Communication records.
    table CollectiveRecords;
    /// One communication record. Absent values: empty name, -1 for ranks and `seq`, 0 for the rest.
    row Collective {
        /// `Collective name` as written: `allreduce`, `_allgather_base`, `send`, `wait`, …
        name: NameId,
        /// Element type: `Float`, `BFloat16`, `Long`, …
        dtype: NameId,
        /// Number of elements in this rank's input.
        in_elements: u64,
        /// Number of elements in this rank's output.
        out_elements: u64,
        /// Input split sizes, as list text.
        in_split: NameId,
        /// Output split sizes, as list text.
        out_split: NameId,
        /// First global rank of the group.
        rank_start: i64,
        /// Distance between global ranks; -1 = irregular.
        rank_stride: i64,
        /// Number of ranks in the group.
        group_size: u64,
        /// Group name (`pg_name`).
        group_name: NameId,
        /// Group description (`pg_desc`).
        group_desc: NameId,
        /// `Process Group Ranks` as written, possibly abbreviated with `...`.
        group_ranks: NameId,
        /// `Rank`: this rank's number in the group, or the root's.
        rank: i64,
        /// Sending rank of a receive (`Src Rank`).
        src: i64,
        /// Receiving rank of a send (`Dst Rank`).
        dst: i64,
        /// Number of the collective within its group (`Seq`).
        seq: i64,
        /// True if `seq` counts sends and receives (ET input `[seq, isP2P]`).
        p2p: bool,
        /// True if the caller does not wait (`Is asynchronized op`).
        asynchronous: bool,
        /// Communicator id (`Comms Id`).
        comms_id: NameId,
    }
}

impl Collective {
    /// Returns a record without any values.
    pub fn absent() -> Self {
        Collective {
            // Rank 0 and number 0 exist, so 0 cannot mean absent.
            rank_start: -1,
            rank_stride: -1,
            rank: -1,
            src: -1,
            dst: -1,
            seq: -1,
            ..Collective::default()
        }
    }

    /// Returns the kind of communication.
    pub fn kind(&self, names: &Names) -> CollectiveKind {
        CollectiveKind::from_name(names.get(self.name))
    }
}

/// Kind of a collective, independent of the name the backend gives it.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    BorshSerialize,
    BorshDeserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the field's names")]
#[strum(serialize_all = "snake_case")]
pub enum CollectiveKind {
    AllReduce,
    Reduce,
    AllGather,
    Gather,
    Scatter,
    Broadcast,
    AllToAll,
    ReduceScatter,
    Barrier,
    Send,
    Recv,
    /// `wait`, `init`, and unknown names: no communication of its own.
    Other,
}

impl CollectiveKind {
    /// Returns the name of the kind in reports and outputs.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the kind of a `Collective name` or of an op or kernel name. Spelling
    /// (`_allgather_base`, `all_gather_into_tensor_coalesced`, `ncclDevKernel_AllGather_RING`) does
    /// not matter.
    pub fn from_name(name: &str) -> CollectiveKind {
        // Called several times per communication, and few names have an unusual spelling.
        usual_kind(name).unwrap_or_else(|| kind_of_parts(name))
    }
}

/// Returns the kind of a name that PyTorch's backends write to `record_param_comms`
/// (`RECORD_PARAM_COMMS_DATA` in `ProcessGroupNCCL.cpp`), or that Gloo gives its ranges.
fn usual_kind(name: &str) -> Option<CollectiveKind> {
    Some(match name {
        "allreduce" | "allreduce_coalesced" | "all_reduce" => CollectiveKind::AllReduce,
        "reduce" | "_reduce_oop" => CollectiveKind::Reduce,
        "_allgather_base" | "allgather" | "all_gather" | "allgather_into_tensor_coalesced" => {
            CollectiveKind::AllGather
        }
        "gather" => CollectiveKind::Gather,
        "scatter" => CollectiveKind::Scatter,
        "broadcast" | "_broadcast_oop" => CollectiveKind::Broadcast,
        "all_to_all" | "all_to_allv" => CollectiveKind::AllToAll,
        "_reduce_scatter_base" | "reduce_scatter" | "reduce_scatter_tensor_coalesced" => {
            CollectiveKind::ReduceScatter
        }
        "barrier" => CollectiveKind::Barrier,
        "send" => CollectiveKind::Send,
        "recv" => CollectiveKind::Recv,
        "wait" | "init" => CollectiveKind::Other,
        _ => return None,
    })
}

/// Returns the kind of a name by the words in it, ignoring case and underscores.
fn kind_of_parts(name: &str) -> CollectiveKind {
    // Backends differ only in case and underscores: `AllReduce`, `all_reduce`,
    // `allreduce_coalesced`.
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let mut words = KIND_WORDS.iter();
    let known = words.find(|(word, _)| plain.contains(word));
    known.map_or(CollectiveKind::Other, |(_, kind)| *kind)
}

/// Words that identify a kind; the first one that a name contains decides.
const KIND_WORDS: [(&str, CollectiveKind); 13] = [
    // All-reduce of vLLM and aiter over the memory of all ranks of a node.
    ("crossdevicereduce", CollectiveKind::AllReduce),
    // A longer word comes before any shorter one it contains: `reducescatter` holds `scatter`.
    ("reducescatter", CollectiveKind::ReduceScatter),
    ("allreduce", CollectiveKind::AllReduce),
    ("allgather", CollectiveKind::AllGather),
    ("alltoall", CollectiveKind::AllToAll),
    ("broadcast", CollectiveKind::Broadcast),
    ("barrier", CollectiveKind::Barrier),
    // NCCL's kernel `SendRecv` serves sends, receives and all-to-alls, so its name decides nothing.
    ("sendrecv", CollectiveKind::Other),
    ("gather", CollectiveKind::Gather),
    ("scatter", CollectiveKind::Scatter),
    ("reduce", CollectiveKind::Reduce),
    ("send", CollectiveKind::Send),
    ("recv", CollectiveKind::Recv),
];

/// Element type of sizes that a recorder states in bytes.
pub const UNIT_BYTES: &str = "bytes";

/// Returns the bytes per element of a PyTorch dtype, spelled as by `c10::toString(ScalarType)`
/// (`Float`, `BFloat16`) or as a type name in tensors; `None` if unknown.
pub fn dtype_bytes(dtype: &str) -> Option<u64> {
    // Records spell the `ScalarType`. Tensors of host traces spell the C++ type:
    // `execution_trace_observer.cpp` writes `dtype().name()`, the name in `caffe2::TypeMeta`.
    Some(match dtype.strip_prefix("c10::").unwrap_or(dtype) {
        // `Float4_e2m1fn_x2` is two numbers in one byte and counts as one element.
        "Byte" | "Char" | "Bool" | "Float8_e5m2" | "Float8_e4m3fn" | "Float8_e5m2fnuz"
        | "Float8_e4m3fnuz" | "Float8_e8m0fnu" | "Float4_e2m1fn_x2" | "QInt8" | "QUInt8"
        | "unsigned char" | "signed char" | "bool" | UNIT_BYTES => 1,
        "Short" | "Half" | "BFloat16" | "UInt16" | "short" | "short int" | "unsigned short" => 2,
        "Int" | "Float" | "UInt32" | "ComplexHalf" | "QInt32" | "int" | "float"
        | "unsigned int" => 4,
        "Long" | "Double" | "UInt64" | "ComplexFloat" | "long" | "long int" | "unsigned long"
        | "double" | "complex<float>" => 8,
        "ComplexDouble" | "complex<double>" => 16,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_any_spelling() {
        for (dtype, bytes) in [
            ("Float8_e4m3fn", Some(1)),
            ("c10::Float8_e4m3fn", Some(1)),
            ("Bool", Some(1)),
            ("BFloat16", Some(2)),
            ("c10::Half", Some(2)),
            ("short int", Some(2)),
            ("Float", Some(4)),
            ("unsigned int", Some(4)),
            ("Long", Some(8)),
            ("long int", Some(8)),
            ("c10::complex<float>", Some(8)),
            ("ComplexDouble", Some(16)),
            ("TensorList", None),
            ("", None),
        ] {
            assert_eq!(dtype_bytes(dtype), bytes, "{dtype}");
        }
    }

    #[test]
    fn kinds_by_any_spelling() {
        for (name, kind) in [
            ("allreduce", CollectiveKind::AllReduce),
            ("allreduce_coalesced", CollectiveKind::AllReduce),
            ("_allgather_base", CollectiveKind::AllGather),
            (
                "all_gather_into_tensor_coalesced",
                CollectiveKind::AllGather,
            ),
            ("_reduce_scatter_base", CollectiveKind::ReduceScatter),
            (
                "reduce_scatter_tensor_coalesced",
                CollectiveKind::ReduceScatter,
            ),
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
                CollectiveKind::AllReduce,
            ),
            ("ncclKernel_SendRecv", CollectiveKind::Other),
            (
                "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>",
                CollectiveKind::AllReduce,
            ),
            ("all_to_allv", CollectiveKind::AllToAll),
            ("reduce", CollectiveKind::Reduce),
            ("gather", CollectiveKind::Gather),
            ("send", CollectiveKind::Send),
            ("recv", CollectiveKind::Recv),
            ("wait", CollectiveKind::Other),
        ] {
            assert_eq!(CollectiveKind::from_name(name), kind, "{name}");
        }
    }

    #[test]
    fn usual_names_have_the_kind_that_their_parts_tell() {
        for name in [
            "allreduce",
            "allreduce_coalesced",
            "all_reduce",
            "reduce",
            "_reduce_oop",
            "_allgather_base",
            "allgather",
            "all_gather",
            "allgather_into_tensor_coalesced",
            "gather",
            "scatter",
            "broadcast",
            "_broadcast_oop",
            "all_to_all",
            "all_to_allv",
            "_reduce_scatter_base",
            "reduce_scatter",
            "reduce_scatter_tensor_coalesced",
            "barrier",
            "send",
            "recv",
            "wait",
            "init",
        ] {
            assert_eq!(usual_kind(name), Some(kind_of_parts(name)), "{name}");
        }
    }
}
