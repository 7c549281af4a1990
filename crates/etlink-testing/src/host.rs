//! Writes the host trace of a drawing.

use crate::comms::{HostInputs, list};
use crate::{DrawnOp, ParamComms, TraceBuilder};
use etlink_formats::host::{
    ArgumentText, CommunicationText, HostSchema, HostWriteOptions, HostWriter, NodeText,
};
use etlink_model::HostHeader;
use std::cmp::Reverse;
use std::io;

/// Place of a node in the file: by end of the op, then ops that began later first, then ops that
/// were drawn later first.
type Place = (i64, Reverse<(i64, usize)>);

/// A node of the host trace.
enum DrawnNode<'d> {
    Process,
    Thread {
        id: u64,
        tid: usize,
    },
    Op {
        id: u64,
        parent: u64,
        rf_id: u64,
        op: &'d DrawnOp,
    },
}

impl TraceBuilder {
    /// Returns the host trace of the process that was set last.
    pub fn host(&self, schema: HostSchema) -> Vec<u8> {
        let text = self.write_host(schema, vec![]);
        text.unwrap_or_else(|error| unreachable!("memory has no errors: {error}"))
    }

    fn write_host(&self, schema: HostSchema, out: Vec<u8>) -> io::Result<Vec<u8>> {
        let header = HostHeader {
            schema: String::new(),
            pid: Some(self.pid),
            time: "2026-11-21 03:06:26".to_owned(),
            start_ms: Some(758_635),
            finish_ms: None,
        };
        let options = HostWriteOptions {
            schema,
            verbatim: true,
        };
        let mut writer = HostWriter::new(out, &header, options)?;
        let mut nodes = self.host_nodes();
        nodes.sort_by_key(|(place, _)| *place);
        for (_, node) in &nodes {
            write_node(&mut writer, node)?;
        }
        writer.finish(Some(758_671))
    }

    /// Returns the process root, the thread roots, and the ops with their parents. Ids count like
    /// PyTorch's: each op's id is followed by a tensor's.
    fn host_nodes(&self) -> Vec<(Place, DrawnNode<'_>)> {
        let rf_ids = self.rf_ids();
        let is_visible = |op: &usize| {
            let drawn = &self.ops[*op];
            drawn.in_host && self.threads[drawn.thread].pid == self.pid
        };
        let mut order: Vec<usize> = (0..self.ops.len()).filter(is_visible).collect();
        order.sort_by_key(|&op| rf_ids[op]);
        // PyTorch writes the process when the observer ends.
        let last = (i64::MAX, Reverse((0, 0)));
        let mut nodes = vec![(last, DrawnNode::Process)];
        let mut id = 2;
        // Open ops of each thread: id and end.
        let mut stacks: Vec<Vec<(u64, i64)>> = vec![vec![]; self.threads.len()];
        for index in order {
            let op = &self.ops[index];
            let stack = &mut stacks[op.thread];
            // The observer creates a thread's root when the thread's first op begins, so the root's
            // id is the lower one.
            if stack.is_empty() {
                let first = (i64::MIN, Reverse((0, op.thread)));
                let tid = op.thread + 1;
                nodes.push((first, DrawnNode::Thread { id, tid }));
                stack.push((id, i64::MAX));
                id += 1;
            }
            // Drawn ops may overlap without nesting, so ended ops are removed anywhere in the
            // stack.
            stack.retain(|(_, end)| *end > op.start);
            let parent = stack.last().map_or(1, |(id, _)| *id);
            stack.push((id, op.end));
            // Nodes are written when their ops end. If ops end together, the inner one, which began
            // later, comes first.
            let place = (op.end, Reverse((op.start, index)));
            let rf_id = rf_ids[index];
            let node = DrawnNode::Op {
                id,
                parent,
                rf_id,
                op,
            };
            nodes.push((place, node));
            // The skipped number belongs to a tensor: real ids have such gaps.
            id += 2;
        }
        nodes
    }
}

fn write_node(writer: &mut HostWriter<Vec<u8>>, node: &DrawnNode<'_>) -> io::Result<()> {
    match node {
        DrawnNode::Process => writer.node(&NodeText::process()),
        DrawnNode::Thread { id, tid } => writer.node(&NodeText::thread(*id, *tid as u64)),
        DrawnNode::Op {
            id,
            parent,
            rf_id,
            op,
        } => write_op(writer, (*id, *parent, *rf_id), op),
    }
}

fn write_op(
    writer: &mut HostWriter<Vec<u8>>,
    (id, parent, rf_id): (u64, u64, u64),
    op: &DrawnOp,
) -> io::Result<()> {
    let (seq_id, fw_tid) = op.seq.unwrap_or((-1, 0));
    // `RecordScope`: 0 is FUNCTION, 1 BACKWARD_FUNCTION, 7 USER_SCOPE.
    let scope = match (op.annotation, fw_tid) {
        (true, _) => 7,
        (false, 0) => 0,
        (false, _) => 1,
    };
    let comms = op.comms.as_ref();
    let inputs = comms.map(ParamComms::host_inputs).unwrap_or_default();
    let splits = comms.map(|comms| (list(&comms.in_split), list(&comms.out_split)));
    let (in_split, out_split) = splits.unwrap_or_default();
    let node = NodeText {
        rf_id,
        seq_id,
        scope,
        fw_tid: u64::from(fw_tid),
        inputs: argument_text(&inputs),
        communication: comms.map(|comms| communication_text(comms, &in_split, &out_split)),
        ..NodeText::range(id, parent, &op.name, op.thread as u64 + 1)
    };
    writer.node(&node)
}

fn argument_text(inputs: &HostInputs) -> ArgumentText<'_> {
    ArgumentText {
        values: inputs.values.as_bytes(),
        shapes: inputs.shapes.as_bytes(),
        types: inputs.types.as_bytes(),
        // PyTorch 2.5 introduced strides, so readers have to work without them.
        strides: b"",
    }
}

fn communication_text<'c>(
    comms: &'c ParamComms,
    in_split: &'c str,
    out_split: &'c str,
) -> CommunicationText<'c> {
    CommunicationText {
        name: &comms.name,
        dtype: &comms.dtype,
        in_elements: comms.in_elements,
        out_elements: comms.out_elements,
        in_split,
        out_split,
        rank_start: comms.first_rank() as i64,
        rank_stride: comms.rank_stride() as i64,
        group_name: &comms.group_name,
        group_desc: &comms.group_desc,
        group_size: comms.ranks.len() as u64,
        asynchronous: comms.asynchronous,
    }
}
