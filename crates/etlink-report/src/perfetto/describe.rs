//! Arguments of a range, shown when it is clicked.

use super::recorded::each_argument;
use super::sink::FactWriter;
use super::slices::{TraceSlice, TraceSlices};
use etlink_link::{CollectiveRef, LinkedTrace, NoLaunch};
use etlink_model::{CallIdx, NameId, OpIdx, RowIdx, RowKind};
use std::io;

/// Returns name and category of a range; the category is Kineto's, if known.
pub(super) fn slice_name<'t>(slices: &TraceSlices<'t>, slice: TraceSlice) -> (&'t str, &'t str) {
    let (trace, device) = (slices.trace, &slices.trace.device);
    let (name, category) = known_name(trace, slice);
    match slices.detail(slice) {
        Some(detail) => (name, device.names.get(detail.category)),
        None => (name, category),
    }
}

fn known_name(trace: &LinkedTrace, slice: TraceSlice) -> (&str, &str) {
    let device = &trace.device;
    match slice {
        TraceSlice::Op(at) => {
            let category = if device.ops.annotation[at as usize] {
                "user_annotation"
            } else {
                "cpu_op"
            };
            (device.names.get(device.ops.name[at as usize]), category)
        }
        TraceSlice::Call(at) => (device.names.get(device.calls.name[at as usize]), "runtime"),
        TraceSlice::Row(at) => (
            device.names.get(device.rows.name[at as usize]),
            device.names.get(device.rows.category[at as usize]),
        ),
        TraceSlice::Node(index) => {
            let node = trace.nodes.get(index);
            // A node that is a range of its own has a name; a part of an op continues it.
            if TraceSlice::of_node(index, &node) == slice {
                (trace.name(&node), "node")
            } else {
                ("goes on", "node")
            }
        }
        TraceSlice::Transfer(_) => ("transfer", "transfer"),
        // Their categories come from their details, without which they are not ranges.
        TraceSlice::Sync(at) => (device.names.get(device.syncs.name[at as usize]), ""),
        TraceSlice::Auxiliary(at) => (device.names.get(device.auxiliary.name[at as usize]), ""),
        TraceSlice::Memory(at) => (device.names.get(device.memory.name[at as usize]), ""),
        TraceSlice::Other(at) => {
            let others = device.details.as_ref().map(|details| &details.others);
            let name = others.map_or(NameId::EMPTY, |others| others.name[at as usize]);
            (device.names.get(name), "")
        }
    }
}

/// Writes all arguments of a range: those that etlink knows, and the recorded ones unchanged.
pub(super) fn write_facts(
    slices: &TraceSlices<'_>,
    slice: TraceSlice,
    args: &mut FactWriter<'_>,
) -> io::Result<()> {
    known_facts(slices, slice, args)?;
    let device = &slices.trace.device;
    let Some((details, detail)) = device.details.as_ref().zip(slices.detail(slice)) else {
        return Ok(());
    };
    args.sink.begin_group("recorded")?;
    each_argument(details.args(detail.args), |key, value| {
        args.sink.add_recorded(key, value)
    })?;
    args.sink.end_group()
}

fn known_facts(
    slices: &TraceSlices<'_>,
    slice: TraceSlice,
    args: &mut FactWriter<'_>,
) -> io::Result<()> {
    let (trace, node) = (slices.trace, slices.first_node(slice));
    args.add_word("kind", node.map(|node| trace.nodes.kind[node.index()]))?;
    args.add_number("node", node.map(|node| node.0))?;
    match slice {
        TraceSlice::Op(at) => op_facts(trace, OpIdx(at), args),
        TraceSlice::Call(at) => call_facts(trace, CallIdx(at), args),
        TraceSlice::Row(at) => row_facts(trace, RowIdx(at), args),
        TraceSlice::Node(node) => args.add_text("name", trace.name(&trace.nodes.get(node))),
        TraceSlice::Transfer(_) => {
            // The node of a transfer is the whole communication, which began when this rank came.
            let since = node.map(|node| trace.nodes.start[node.index()]);
            args.add_number(
                "waited_ns",
                since.map(|since| (slices.slice_span(slice).0 - since).0),
            )
        }
        TraceSlice::Sync(_)
        | TraceSlice::Auxiliary(_)
        | TraceSlice::Memory(_)
        | TraceSlice::Other(_) => Ok(()),
    }
}

fn op_facts(trace: &LinkedTrace, op: OpIdx, args: &mut FactWriter<'_>) -> io::Result<()> {
    let (ops, at) = (&trace.device.ops, op.index());
    args.add_number("rf_id", ops.rf_id[at].get().map(|id| id.0))?;
    args.add_number("seq_id", known_number(ops.seq_id[at]))?;
    args.add_number(
        "fwd_thread",
        // PyTorch numbers its threads from 1; 0 means that there is no forward thread.
        Some(ops.fwd_thread[at]).filter(|thread| *thread != 0),
    )?;
    let matched = trace.host.as_ref().zip(trace.op_host[at].get());
    match matched {
        Some((host, of)) => {
            let nodes = &host.nodes;
            args.add_number("et_node", Some(nodes.id[of.index()]))?;
            args.add_word("matched_by", Some(trace.op_rule[at]))?;
            args.add_text("op_schema", host.names.get(nodes.op_schema[of.index()]))?;
            let [inputs, outputs] = [&nodes.inputs[of.index()], &nodes.outputs[of.index()]];
            for (key, list) in [
                ("input_shapes", inputs.shapes),
                ("input_types", inputs.types),
                ("output_shapes", outputs.shapes),
            ] {
                some_list(args, key, host.names.get(list))?;
            }
        }
        None => {
            some_list(args, "input_shapes", trace.device_name(ops.shapes[at]))?;
            some_list(args, "input_types", trace.device_name(ops.types[at]))?;
        }
    }
    args.add_number("exclusive_ns", Some(trace.op_exclusive[at].0))?;
    trace
        .op_collective(op)
        .map_or(Ok(()), |of| collective_facts(&of, args))
}

fn call_facts(trace: &LinkedTrace, call: CallIdx, args: &mut FactWriter<'_>) -> io::Result<()> {
    let (calls, at) = (&trace.device.calls, call.index());
    args.add_number("correlation", calls.correlation[at].get().map(|id| id.0))?;
    args.add_number("external_id", known_number(calls.external_id[at]))?;
    owner_facts(trace, trace.call_op[at], args)
}

fn row_facts(trace: &LinkedTrace, row: RowIdx, args: &mut FactWriter<'_>) -> io::Result<()> {
    let (device, rows, at) = (&trace.device, &trace.device.rows, row.index());
    args.add_number("correlation", rows.correlation[at].get().map(|id| id.0))?;
    args.add_number("external_id", known_number(rows.external_id[at]))?;
    if let Some(queue) = device.queues.get(rows.queue[at].index()) {
        args.add_number("device", Some(queue.device))?;
        args.add_number("context", Some(queue.context))?;
        args.add_number("stream", Some(queue.stream))?;
    }
    if rows.kind[at] == RowKind::Kernel {
        for (key, dims) in [("grid", rows.grid[at]), ("block", rows.block[at])] {
            if dims != [0; 3] {
                args.add_shown(key, format_args!("[{}, {}, {}]", dims[0], dims[1], dims[2]))?;
            }
        }
    } else {
        args.add_number("bytes", Some(rows.bytes[at]))?;
    }
    args.add_number(
        "graph_node",
        Some(rows.graph_node[at]).filter(|node| *node != 0),
    )?;
    let note = device.row_annotation(row);
    if !note.is_empty() {
        args.add_text("annotation", note)?;
    }
    args.add_word(
        "no_launch",
        Some(trace.row_no_launch[at]).filter(|reason| *reason != NoLaunch::Launched),
    )?;
    owner_facts(trace, trace.row_op[at], args)?;
    trace
        .row_collective(row)
        .map_or(Ok(()), |of| collective_facts(&of, args))
}

/// Writes the op that a call or row belongs to.
fn owner_facts(trace: &LinkedTrace, op: OpIdx, args: &mut FactWriter<'_>) -> io::Result<()> {
    op.get().map_or(Ok(()), |op| {
        args.add_text("op", trace.device_name(trace.device.ops.name[op.index()]))
    })
}

fn collective_facts(of: &CollectiveRef<'_>, args: &mut FactWriter<'_>) -> io::Result<()> {
    let record = &of.record;
    let name_of = |id: NameId| of.names.get(id);
    args.add_text("collective", name_of(record.name))?;
    args.add_text("dtype", name_of(record.dtype))?;
    args.add_number("in_elements", Some(record.in_elements))?;
    args.add_number("out_elements", Some(record.out_elements))?;
    some_list(args, "in_split", name_of(record.in_split))?;
    some_list(args, "out_split", name_of(record.out_split))?;
    args.add_text("group", name_of(record.group_name))?;
    args.add_text("group_desc", name_of(record.group_desc))?;
    args.add_text("group_ranks", name_of(record.group_ranks))?;
    args.add_number(
        "group_size",
        Some(record.group_size).filter(|size| *size > 0),
    )?;
    for (key, value) in [
        ("rank", record.rank),
        ("src", record.src),
        ("dst", record.dst),
        ("seq", record.seq),
    ] {
        args.add_number(key, known_number(value))?;
    }
    args.add_number("asynchronous", Some(record.asynchronous))
}

fn known_number(value: i64) -> Option<i64> {
    // The readers leave -1 if a trace does not have the number.
    Some(value).filter(|value| *value != -1)
}

fn some_list(args: &mut FactWriter<'_>, key: &'static str, list: &str) -> io::Result<()> {
    // An op without tensors has empty lists, which are left out.
    if list == "[]" {
        Ok(())
    } else {
        args.add_text(key, list)
    }
}
