//! What a range says of itself beside name and times: one line per fact.

use super::ranges::Of;
use etlink_link::{CollectiveRef, LinkedTrace};
use etlink_model::{NameId, OpIdx, RowIdx, RowKind};
use std::fmt::Write;

/// Lines `what: value`; empty where the traces say nothing.
pub(super) fn about(trace: &LinkedTrace, of: Of) -> String {
    match of {
        Of::Op(at) => op(trace, OpIdx(at as u32)),
        Of::Call(_) => String::new(),
        Of::Row(at) => row(trace, RowIdx(at as u32)),
    }
}

fn op(trace: &LinkedTrace, op: OpIdx) -> String {
    let (ops, at) = (&trace.device.ops, op.index());
    let mut out = String::new();
    match trace.host.as_ref().zip(trace.op_host[at].get()) {
        Some((host, of)) => {
            let nodes = &host.nodes;
            line(
                &mut out,
                "schema",
                host.names.get(nodes.op_schema[of.index()]),
            );
            line(
                &mut out,
                "input shapes",
                host.names.get(nodes.inputs[of.index()].shapes),
            );
            line(
                &mut out,
                "input types",
                host.names.get(nodes.inputs[of.index()].types),
            );
        }
        None => {
            line(&mut out, "input shapes", trace.device_name(ops.shapes[at]));
            line(&mut out, "input types", trace.device_name(ops.types[at]));
        }
    }
    if let Some(of) = trace.op_collective(op) {
        collective(&mut out, &of);
    }
    out
}

fn row(trace: &LinkedTrace, row: RowIdx) -> String {
    let (rows, at) = (&trace.device.rows, row.index());
    let mut out = String::new();
    let dims = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
    if rows.kind[at] != RowKind::Kernel {
        line(&mut out, "bytes", &rows.bytes[at].to_string());
    } else if rows.grid[at] != [0; 3] {
        line(
            &mut out,
            "grid, block",
            &format!("{}, {}", dims(rows.grid[at]), dims(rows.block[at])),
        );
    }
    if rows.graph_node[at] != 0 {
        line(&mut out, "graph node", &rows.graph_node[at].to_string());
    }
    if let Some(of) = trace.row_collective(row) {
        collective(&mut out, &of);
    }
    out
}

fn collective(out: &mut String, of: &CollectiveRef<'_>) {
    let record = &of.record;
    let name = |id: NameId| of.names.get(id);
    line(out, "collective", name(record.name));
    line(
        out,
        "elements",
        &format!(
            "{} in, {} out, {}",
            record.in_elements,
            record.out_elements,
            name(record.dtype)
        ),
    );
    line(
        out,
        "process group",
        &format!("{} {}", name(record.group_name), name(record.group_desc)),
    );
    line(out, "ranks", name(record.group_ranks));
    for (what, value) in [
        ("number in the group", record.seq),
        ("from rank", record.src),
        ("to rank", record.dst),
    ] {
        if value != -1 {
            line(out, what, &value.to_string());
        }
    }
}

fn line(out: &mut String, what: &str, value: &str) {
    let value = value.trim();
    if !value.is_empty() && value != "[]" {
        let before = if out.is_empty() { "" } else { "\n" };
        let _ = write!(out, "{before}{what}: {}", value.replace('\n', " "));
    }
}
