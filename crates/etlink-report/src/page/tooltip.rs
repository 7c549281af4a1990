//! Tooltip text of a range beyond name and times: one line per fact.

use super::ranges::TraceRange;
use etlink_link::{CollectiveRef, LinkedTrace};
use etlink_model::{NameId, OpIdx, RowIdx, RowKind};
use std::fmt::Write;

/// Returns lines `what: value`; empty if the traces state no facts.
pub(super) fn tooltip_text(trace: &LinkedTrace, of: TraceRange) -> String {
    match of {
        TraceRange::Op(at) => op_facts(trace, OpIdx(at as u32)),
        // The only fact about a call is its correlation, which has its own column.
        TraceRange::Call(_) => String::new(),
        TraceRange::Row(at) => row_facts(trace, RowIdx(at as u32)),
    }
}

fn op_facts(trace: &LinkedTrace, op: OpIdx) -> String {
    let (ops, at) = (&trace.device.ops, op.index());
    let mut out = String::new();
    match trace.host.as_ref().zip(trace.op_host[at].get()) {
        Some((host, of)) => {
            let nodes = &host.nodes;
            add_fact(
                &mut out,
                "schema",
                host.names.get(nodes.op_schema[of.index()]),
            );
            add_fact(
                &mut out,
                "input shapes",
                host.names.get(nodes.inputs[of.index()].shapes),
            );
            add_fact(
                &mut out,
                "input types",
                host.names.get(nodes.inputs[of.index()].types),
            );
        }
        // Without a host node only Kineto's own shapes exist, if `record_shapes` was on.
        None => {
            add_fact(&mut out, "input shapes", trace.device_name(ops.shapes[at]));
            add_fact(&mut out, "input types", trace.device_name(ops.types[at]));
        }
    }
    if let Some(of) = trace.op_collective(op) {
        collective_facts(&mut out, &of);
    }
    out
}

fn row_facts(trace: &LinkedTrace, row: RowIdx) -> String {
    let (rows, at) = (&trace.device.rows, row.index());
    let mut out = String::new();
    if matches!(rows.kind[at], RowKind::Memcpy | RowKind::Memset) {
        add_fact(&mut out, "bytes", &rows.bytes[at].to_string());
    // The readers leave 0 if a kernel has no grid, such as ROCm's graph kernels.
    } else if rows.grid[at] != [0; 3] {
        add_fact(
            &mut out,
            "grid, block",
            &format!(
                "{}, {}",
                dims_text(rows.grid[at]),
                dims_text(rows.block[at])
            ),
        );
    }
    if rows.graph_node[at] != 0 {
        add_fact(&mut out, "graph node", &rows.graph_node[at].to_string());
        let note = trace.device.row_annotation(row);
        if !note.is_empty() {
            add_fact(&mut out, "annotation", note);
        }
    }
    if let Some(of) = trace.row_collective(row) {
        collective_facts(&mut out, &of);
    }
    out
}

fn dims_text([x, y, z]: [u32; 3]) -> String {
    format!("{x} x {y} x {z}")
}

fn collective_facts(out: &mut String, of: &CollectiveRef<'_>) {
    let record = &of.record;
    let name = |id: NameId| of.names.get(id);
    add_fact(out, "collective", name(record.name));
    add_fact(
        out,
        "elements",
        &format!(
            "{} in, {} out, {}",
            record.in_elements,
            record.out_elements,
            name(record.dtype)
        ),
    );
    add_fact(
        out,
        "process group",
        &format!("{} {}", name(record.group_name), name(record.group_desc)),
    );
    add_fact(out, "ranks", name(record.group_ranks));
    for (what, value) in [
        ("number in the group", record.seq),
        ("from rank", record.src),
        ("to rank", record.dst),
    ] {
        // -1 means not recorded: only messages have a peer.
        if value != -1 {
            add_fact(out, what, &value.to_string());
        }
    }
}

fn add_fact(out: &mut String, what: &str, value: &str) {
    // A group without a description leaves a leading blank.
    let value = value.trim();
    if !value.is_empty() && value != "[]" {
        // The page splits the text at line breaks, so a value may not contain any.
        let before = if out.is_empty() { "" } else { "\n" };
        let _ = write!(out, "{before}{what}: {}", value.replace('\n', " "));
    }
}
