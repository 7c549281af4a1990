//! The host trace: PyTorch's execution trace (ET).
//!
//! Written by `torch/csrc/profiler/standalone/execution_trace_observer.cpp`: a node per
//! `RecordFunction` range with its inputs, outputs and parent, without any time. Ids come
//! from one counter for nodes, tensors and storages, taken when the op begins: order by id
//! is program order within a thread.

use crate::columns::columns;
use crate::{Anomalies, CollectiveRecords, NameId, Names, ProcessGroup, RfId, TensorUses};
use serde::{Deserialize, Serialize};

/// A piece of [`HostTrace::text`].
// A node has three: the padding to 16 bytes would be an eighth of its columns.
#[repr(Rust, packed(4))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSpan {
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u32,
}

/// `inputs` or `outputs` of a node, as JSON text (`[]` where the trace has none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValueList {
    /// `values`, in [`HostTrace::text`]: tensor tuples and scalars.
    pub values: TextSpan,
    /// `shapes`.
    pub shapes: NameId,
    /// `types`.
    pub types: NameId,
    /// `strides` (1.1.1 on; empty name where the schema has none).
    pub strides: NameId,
}

columns! {
    /// Nodes in the order of their ids, which is the order in which ops began.
    table HostNodes;
    /// One node. Absent numbers are 0, absent strings empty, as PyTorch writes them.
    row HostNode {
        /// `id`.
        id: u64,
        /// `ctrl_deps` (1.0.2 on) or `parent` (1.0.1): id of the enclosing op, 0 = none.
        parent: u64,
        /// `name`.
        name: NameId,
        /// `rf_id`.
        rf_id: RfId,
        /// `fw_parent`: id on top of the forward thread's stack. Not a forward/backward link.
        fw_parent: u64,
        /// `seq_id`: autograd sequence number, -1 = none.
        seq_id: i64,
        /// `scope`: 0 function, 1 backward function, 2 TorchScript, 7 user range (`RecordScope`).
        scope: u8,
        /// `tid`: RecordFunction thread id, 1, 2, … in order of first use; no OS thread id.
        tid: u32,
        /// `fw_tid`: the same for the forward thread of a backward op, 0 = none.
        fw_tid: u32,
        /// `op_schema`.
        op_schema: NameId,
        /// `kernel_backend`.
        kernel_backend: NameId,
        /// `kernel_file`.
        kernel_file: NameId,
        /// `tensor_range`.
        tensor_range: NameId,
        /// Attributes that this reader does not know: JSON objects `{"name": …}`, comma separated.
        extra_attrs: TextSpan,
        /// `inputs`.
        inputs: ValueList,
        /// `outputs`.
        outputs: ValueList,
        /// Row of [`HostTrace::collectives`], `u32::MAX` = none.
        collective: u32,
    }
}

/// What stands around the nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostHeader {
    /// `schema`, as written.
    pub schema: String,
    /// `pid` of the recorded process.
    pub pid: Option<i64>,
    /// `time`: local wall clock, `YYYY-mm-dd HH:MM:SS`.
    pub time: String,
    /// `start_ts`: steady clock, milliseconds; not the clock of the device trace.
    pub start_ms: Option<i64>,
    /// `finish_ts`, milliseconds; absent when the observer was never unregistered.
    pub finish_ms: Option<i64>,
}

/// An execution trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostTrace {
    /// What stands around the nodes.
    pub header: HostHeader,
    /// Strings.
    pub names: Names,
    /// Nodes by id.
    pub nodes: HostNodes,
    /// Text that [`TextSpan`]s point into.
    #[serde(with = "crate::stored_bytes")]
    pub text: Vec<u8>,
    /// Communication attributes of `record_param_comms` nodes.
    pub collectives: CollectiveRecords,
    /// Groups of the `## process_group:init ##` nodes.
    pub groups: Vec<ProcessGroup>,
    /// Which tensors the nodes use, if that was read.
    pub tensors: Option<TensorUses>,
    /// What was wrong.
    #[serde(with = "crate::anomaly::stored")]
    pub anomalies: Anomalies,
    /// Size of the trace, unpacked, bytes.
    pub bytes: u64,
}

impl HostTrace {
    /// The text of a span. O(1).
    pub fn span(&self, span: TextSpan) -> &[u8] {
        // A span that some other trace gave out has no text here, and must not end the program.
        let start = usize::try_from(span.start).unwrap_or(usize::MAX);
        let end = start.saturating_add(span.bytes as usize);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Row of the node with this id. O(log n).
    pub fn find(&self, id: u64) -> Option<usize> {
        // The reader sorts nodes by id, and of two with one id keeps the first.
        self.nodes.id.binary_search(&id).ok()
    }

    /// Whether row `index` is a `[pytorch|profiler|execution_trace|process]` or `…|thread]` root.
    pub fn is_root(&self, index: usize) -> bool {
        self.names
            .get(self.nodes.name[index])
            // Older PyTorch wrote `execution_graph` in place of `execution_trace`.
            .starts_with("[pytorch|profiler|execution_")
    }
}
