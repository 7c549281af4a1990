//! Writes a whole trace, so that tests can compare it with the file that it was read from.

use etlink_formats::host::{
    ArgumentText, CommunicationText, HostWriteOptions, HostWriter, NodeText, PROCESS_NODE,
    THREAD_NODE,
};
use etlink_model::{Collective, HostTrace, NameId, ValueList};
use std::io::{self, Write};

/// Writes a trace that was read or built.
///
/// A node is written when it ends, as PyTorch does: after the nodes inside it, and the process
/// last.
pub(crate) fn write<W: Write>(
    trace: &HostTrace,
    out: W,
    options: HostWriteOptions,
) -> io::Result<W> {
    let mut writer = HostWriter::new(out, &trace.header, options)?;
    for row in rows_by_end(trace) {
        writer.node(&node_text(trace, row))?;
    }
    writer.finish(trace.header.finish_ms)
}

/// Returns the rows in the order in which the nodes end, as far as ids and parents show.
fn rows_by_end(trace: &HostTrace) -> Vec<usize> {
    let nodes = &trace.nodes;
    let mut order = Vec::with_capacity(nodes.len());
    let mut process = vec![];
    // open nodes of each thread, outermost first
    let mut threads: Vec<(u32, Vec<usize>)> = vec![];
    let mut is_open = vec![false; nodes.len()];
    for row in 0..nodes.len() {
        match trace.names.get(nodes.name[row]) {
            PROCESS_NODE => {
                process.push(row);
                continue;
            }
            THREAD_NODE => {
                order.push(row);
                continue;
            }
            _ => {}
        }
        let tid = nodes.tid[row];
        let known = threads.iter().position(|(known, _)| *known == tid);
        let place = known.unwrap_or_else(|| {
            threads.push((tid, vec![]));
            threads.len() - 1
        });
        let open = &mut threads[place].1;
        // A parent that has ended, or is on another thread, cannot close anything here.
        let parent = trace
            .find(nodes.parent[row])
            .filter(|parent| is_open[*parent]);
        // Nodes above the parent on the stack ended before this node began.
        while let Some(top) = open.pop_if(|top| Some(*top) != parent) {
            is_open[top] = false;
            order.push(top);
        }
        is_open[row] = true;
        open.push(row);
    }
    // Nodes still open end with the trace, innermost first.
    let open = threads
        .into_iter()
        .flat_map(|(_, open)| open.into_iter().rev());
    order.extend(open);
    order.extend(process);
    order
}

fn node_text(trace: &HostTrace, row: usize) -> NodeText<'_> {
    let node = trace.nodes.row(row);
    let name = |id: NameId| trace.names.get(id);
    let lists = |lists: ValueList| ArgumentText {
        values: trace.span(lists.values),
        shapes: name(lists.shapes).as_bytes(),
        types: name(lists.types).as_bytes(),
        strides: name(lists.strides).as_bytes(),
    };
    let record = usize::try_from(node.collective)
        .ok()
        .filter(|record| *record < trace.collectives.len())
        .map(|record| trace.collectives.row(record));
    // the process is its own parent in the file; readers turn that into none
    let is_process = name(node.name) == PROCESS_NODE;
    NodeText {
        id: node.id,
        name: name(node.name),
        parent: if is_process { node.id } else { node.parent },
        rf_id: node.rf_id.0,
        fw_parent: node.fw_parent,
        seq_id: node.seq_id,
        scope: node.scope,
        tid: u64::from(node.tid),
        fw_tid: u64::from(node.fw_tid),
        op_schema: name(node.op_schema),
        kernel_backend: name(node.kernel_backend),
        kernel_file: name(node.kernel_file),
        tensor_range: name(node.tensor_range),
        inputs: lists(node.inputs),
        outputs: lists(node.outputs),
        communication: record
            .filter(|record| record.name != NameId::EMPTY)
            .map(|record| communication_text(trace, &record)),
        more_attributes: trace.span(node.extra_attrs),
    }
}

fn communication_text<'a>(trace: &'a HostTrace, record: &Collective) -> CommunicationText<'a> {
    CommunicationText {
        name: trace.names.get(record.name),
        dtype: trace.names.get(record.dtype),
        in_elements: record.in_elements,
        out_elements: record.out_elements,
        in_split: trace.names.get(record.in_split),
        out_split: trace.names.get(record.out_split),
        rank_start: record.rank_start,
        rank_stride: record.rank_stride,
        group_name: trace.names.get(record.group_name),
        group_desc: trace.names.get(record.group_desc),
        group_size: record.group_size,
        asynchronous: record.asynchronous,
    }
}
