//! The host trace: PyTorch's execution trace (ET).
//!
//! Written by `torch/csrc/profiler/standalone/execution_trace_observer.cpp`: one node per
//! `RecordFunction` range with its inputs, outputs and parent, without times. Node, tensor and
//! storage ids come from one counter and are taken when the op begins, so order by id is program
//! order within a thread.

use crate::columns::columns;
use crate::{Anomalies, CollectiveRecords, NameId, Names, ProcessGroup, RfId, TensorUses};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// Byte range in [`HostTrace::text`].
// Packed, because a node has three: padding to 16 bytes would add an eighth to its columns.
#[repr(Rust, packed(4))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSpan {
    /// Offset of the first byte.
    pub start: u64,
    /// Length in bytes.
    pub bytes: u32,
}

impl BorshSerialize for TextSpan {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        BorshSerialize::serialize(&({ self.start }, { self.bytes }), writer)
    }
}

impl BorshDeserialize for TextSpan {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<TextSpan> {
        let (start, bytes) = BorshDeserialize::deserialize_reader(reader)?;
        Ok(TextSpan { start, bytes })
    }
}

/// `inputs` or `outputs` of a node, as JSON text (`[]` if the trace has none).
#[derive(Clone, Copy, Debug, Default, PartialEq, BorshSerialize, BorshDeserialize)]
pub struct ValueList {
    /// JSON list `values`, in [`HostTrace::text`]: tensor tuples and scalars.
    pub values: TextSpan,
    /// JSON list `shapes`.
    pub shapes: NameId,
    /// JSON list `types`.
    pub types: NameId,
    /// JSON list `strides` (1.1.1 and later); empty name if the schema has none.
    pub strides: NameId,
}

columns! {
    /// Nodes by id, which is the order in which ops began.
    table HostNodes;
    /// One node. As in PyTorch's output, absent numbers are 0 and absent strings are empty.
    row HostNode {
        /// Node id (`id`).
        id: u64,
        /// Id of the enclosing op (`ctrl_deps` from 1.0.2 on, `parent` in 1.0.1); 0 = none.
        parent: u64,
        /// Op name (`name`).
        name: NameId,
        /// Record function id (`rf_id`).
        rf_id: RfId,
        /// Id on top of the forward thread's stack (`fw_parent`). Not a forward/backward link.
        fw_parent: u64,
        /// Autograd sequence number (`seq_id`); -1 = none.
        seq_id: i64,
        /// `RecordScope` (`scope`): 0 function, 1 backward function, 2 TorchScript, 7 user range.
        scope: u8,
        /// RecordFunction thread id (`tid`): 1, 2, … in order of first use; not an OS thread id.
        tid: u32,
        /// RecordFunction thread id of a backward op's forward thread (`fw_tid`); 0 = none.
        fw_tid: u32,
        /// Operator schema (`op_schema`).
        op_schema: NameId,
        /// Backend of a compiled kernel (`kernel_backend`).
        kernel_backend: NameId,
        /// Source file of a compiled kernel (`kernel_file`).
        kernel_file: NameId,
        /// Value ranges of tensors (`tensor_range`).
        tensor_range: NameId,
        /// Attributes unknown to this reader: JSON objects `{"name": …}`, comma separated.
        extra_attrs: TextSpan,
        /// Input values (`inputs`).
        inputs: ValueList,
        /// Output values (`outputs`).
        outputs: ValueList,
        /// Row of [`HostTrace::collectives`]; `u32::MAX` = none.
        collective: u32,
    }
}

/// Document fields around the nodes.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize, Serialize, Deserialize,
)]
pub struct HostHeader {
    /// Schema version (`schema`), as written.
    pub schema: String,
    /// Process id of the recorded process (`pid`).
    pub pid: Option<i64>,
    /// Local wall-clock time of the recording (`time`), `YYYY-mm-dd HH:MM:SS`.
    pub time: String,
    /// Start of the recording (`start_ts`), steady clock, milliseconds; not the clock of the device
    /// trace.
    pub start_ms: Option<i64>,
    /// End of the recording (`finish_ts`), milliseconds; absent if the observer was never
    /// unregistered.
    pub finish_ms: Option<i64>,
}

/// An execution trace.
#[derive(Clone, Debug, Default, BorshSerialize, BorshDeserialize)]
pub struct HostTrace {
    /// Document fields around the nodes.
    pub header: HostHeader,
    /// Interned strings.
    pub names: Names,
    /// Nodes by id.
    pub nodes: HostNodes,
    /// Text that [`TextSpan`]s point into.
    pub text: Vec<u8>,
    /// Communication attributes of `record_param_comms` nodes.
    pub collectives: CollectiveRecords,
    /// Groups of the `## process_group:init ##` nodes.
    pub groups: Vec<ProcessGroup>,
    /// Tensors used by the nodes; `None` unless they were read.
    pub tensors: Option<TensorUses>,
    /// Damage found while reading.
    pub anomalies: Anomalies,
    /// Uncompressed size of the trace, in bytes.
    pub bytes: u64,
}

impl HostTrace {
    /// Returns the text of a span; empty if the span is out of range. O(1).
    pub fn span(&self, span: TextSpan) -> &[u8] {
        // A span from another trace may be out of range here and must not cause a panic.
        let start = usize::try_from(span.start).unwrap_or(usize::MAX);
        let end = start.saturating_add(span.bytes as usize);
        self.text.get(start..end).unwrap_or_default()
    }

    /// Returns the row of the node with this id. O(log n).
    pub fn find(&self, id: u64) -> Option<usize> {
        // The reader sorts nodes by id and keeps the first of two with the same id.
        self.nodes.id.binary_search(&id).ok()
    }

    /// Returns true if row `index` is a `[pytorch|profiler|execution_trace|process]` or `…|thread]`
    /// root.
    pub fn is_root(&self, index: usize) -> bool {
        self.names
            .get(self.nodes.name[index])
            // Older PyTorch wrote `execution_graph` instead of `execution_trace`.
            .starts_with("[pytorch|profiler|execution_")
    }
}
