//! Reads and writes host traces: the execution traces (ET) of PyTorch's `ExecutionTraceObserver`
//! (`torch/csrc/profiler/standalone/execution_trace_observer.cpp`), from schema 1.0.1 (PyTorch 2.1)
//! to the current 1.1.1, and the output of chakra's linker (ET+).
//!
//! ```text
//! bytes -> chunks -> NodeFields (one node, borrowed) -> tables of the chunk -> HostTrace, by id
//! ```
//! A node is recognized by its shape, not by the schema that the file claims. The file is never
//! held as a tree: names, shapes and types are interned, and `values` are copied once, as text. The
//! text is unchanged: an old observer's bare `nan` or `inf` remains.
//!
//! PyTorch writes a node when its op ends, does not escape names, and writes the end of the list
//! when the observer is unregistered. So files are unsorted, often truncated and often not JSON.
//! [`HostTrace::anomalies`] counts everything that is repaired, dropped or moved. In the result ids
//! ascend and are unique, and every chain of parents ends at 0 or at an id that no node has. O(n
//! log n) for the sort by id, otherwise linear.
//!
//! ```
//! let text = br#"{"schema": "1.0.1", "nodes": [
//!   {"name": "aten::add", "id": 5, "rf_id": 3, "parent": 2, "tid": 1,
//!    "inputs": [[3,4,0,64,4,"cpu"]], "input_shapes": [[8,8]], "input_types": ["Tensor(float)"]},
//!   {"name": "[pytorch|profiler|execution_trace|thread]", "id": 2, "parent": 1, "tid": 1}
//! ], "finish_ts": 7}"#;
//! let trace = etlink_formats::host::read(&text[..], etlink_formats::host::HostReadOptions::default())?;
//! assert_eq!(trace.nodes.id, [2, 5]);
//! assert_eq!(trace.names.get(trace.nodes.name[1]), "aten::add");
//! let uses = etlink_formats::host::tensor_uses(&trace);
//! assert_eq!(uses.refs.end[uses.inputs(1).start], 4 * 64);
//! # Ok::<(), etlink_formats::Error>(())
//! ```

mod comms;
mod finish;
mod groups;
mod header;
mod node;
mod read_node;
mod schema_attrs;
mod schema_flat;
mod tables;
mod values;
mod write;

pub use values::tensor_uses;
pub use write::{
    ArgumentText, CommunicationText, HostSchema, HostWriteOptions, HostWriter, NodeText,
    PROCESS_NODE, THREAD_NODE,
};

use crate::{Error, SoughtData};
use etlink_json::{ArrayEnvelope, ArrayLayout, ReadDamage, read_elements};
use etlink_model::{AnomalyKind, HostHeader, HostTrace, HostVersion, KeptNodes};
use std::io::Read;

/// Options of the readers.
#[derive(Clone, Copy, Debug)]
pub struct HostReadOptions {
    /// Threads to use. They take turns in reading (and inflating) a chunk, then parse it.
    pub threads: usize,
}

impl Default for HostReadOptions {
    fn default() -> Self {
        HostReadOptions { threads: 1 }
    }
}

/// The list of nodes.
const NODES: SoughtData = SoughtData {
    data: "\"nodes\" list",
    meaning: "not a PyTorch execution trace, or truncated before its nodes",
    remedy: "record it again",
};

const LAYOUT: ArrayLayout = ArrayLayout {
    array: "nodes",
    first_keys: &[],
    chunk_bytes: 128 << 10,
};

/// Maximum number of list ends to continue after: one per child process that was forked while the
/// observer ran, and exited normally.
const MAX_ENDS: usize = 16;

/// Reads an execution trace. The result does not depend on `threads`.
///
/// # Errors
/// The source fails, contains neither a `nodes` list nor a bare list, or has too many nodes. A
/// truncated or partly damaged file is not an error: see [`HostTrace::anomalies`].
pub fn read<R: Read + Send>(source: R, options: HostReadOptions) -> Result<HostTrace, Error> {
    read_part(source, options, None)
}

/// Reads like [`read`], but keeps only some nodes. Names are numbered as in the whole trace.
/// Missing parents do not count as damage and stay unchanged.
///
/// # Errors
/// Same as [`read`].
pub fn read_part<R: Read + Send>(
    source: R,
    options: HostReadOptions,
    kept: Option<&KeptNodes>,
) -> Result<HostTrace, Error> {
    let mut builder = tables::HostTraceBuilder::default();
    let envelope = read_nodes(source, options, kept, &mut builder)?;
    let (bytes, mut trailer, mut damage) = (envelope.bytes, envelope.trailer, envelope.damage);
    let mut header = HostHeader::default();
    let mut damaged = header::add(&envelope.header, &mut header).damaged;
    let mut behind = header::add(&trailer, &mut header);
    damaged += behind.damaged;
    // A forked child closes the file while its parent continues to write, so lists follow each
    // other.
    for _ in 1..MAX_ENDS {
        let Some(start) = header::nodes_after_end(&trailer) else {
            break;
        };
        let list = b"[".chain(&trailer[start..]);
        let more = read_nodes(list, options, kept, &mut builder)?;
        // Offsets in the added list count from the bracket inserted before it; users need offsets
        // in the file.
        let offset = bytes.saturating_sub((trailer.len() - start) as u64 + 1);
        damage.add(ReadDamage {
            first_offset: more.damage.first_offset.map(|at| at + offset),
            ..more.damage
        });
        trailer = more.trailer;
        behind = header::add(&trailer, &mut header);
        damaged += behind.damaged;
    }
    let mut trace = builder.finish().ok_or(Error::TooManyRows)?;
    trace.bytes = bytes;
    trace.header = header;
    // Order and parents can only be repaired once all lists are read.
    finish::finish(&mut trace, kept.is_some());
    let lists_behind = header::count_lists(&trailer, LAYOUT.array);
    let name = Some(format!("{:?}", LAYOUT.array));
    trace
        .anomalies
        .add(AnomalyKind::RepeatedKey, lists_behind, name);
    note_damage(&mut trace, damage);
    trace
        .anomalies
        .add(AnomalyKind::HeaderDamaged, damaged, None);
    trace
        .anomalies
        .add(AnomalyKind::TextBehind, u64::from(behind.text_behind), None);
    Ok(trace)
}

fn read_nodes(
    source: impl Read + Send,
    options: HostReadOptions,
    kept: Option<&KeptNodes>,
    builder: &mut tables::HostTraceBuilder,
) -> Result<ArrayEnvelope, Error> {
    read_elements(
        source,
        LAYOUT,
        options.threads,
        |chunk, scanner| parse_node(chunk, scanner, kept),
        |chunk| builder.append(chunk),
    )
    .map_err(|error| NODES.error(error))
}

fn parse_node(
    chunk: &mut tables::NodeChunk,
    scanner: &mut etlink_json::JsonScanner<'_>,
    kept: Option<&KeptNodes>,
) -> Result<(), etlink_json::BrokenJson> {
    // The whole node is read before anything is kept, since damage may present it a second time.
    let fields = read_node::read_node(scanner)?;
    scanner.end_element()?;
    chunk.push(&fields, kept);
    Ok(())
}

fn note_damage(trace: &mut HostTrace, damage: ReadDamage) {
    crate::note_damage(&mut trace.anomalies, trace.bytes, damage);
    let anomalies = &mut trace.anomalies;
    if trace.header.finish_ms.is_none() {
        anomalies.note(AnomalyKind::NoFinish, String::new);
    }
    if HostVersion::find(&trace.header.schema).is_none() {
        anomalies.note(AnomalyKind::UnknownSchema, || trace.header.schema.clone());
    }
}

#[cfg(test)]
mod tests;
