//! Names in host traces (execution traces).

use super::names::Names;
use super::{nested_json, rows};
use serde_json::{Map, Value};

/// Fields of a trace that are copied.
const HEADER: [&str; 5] = ["schema", "pid", "time", "start_ts", "finish_ts"];

/// Fields of a node that are copied. Those with names are replaced.
const FIELDS: [&str; 18] = [
    "id",
    "name",
    "ctrl_deps",
    "inputs",
    "outputs",
    "attrs",
    "parent",
    "op_schema",
    "fw_parent",
    "seq_id",
    "scope",
    "tid",
    "fw_tid",
    "rf_id",
    "input_shapes",
    "input_types",
    "output_shapes",
    "output_types",
];

/// Attributes of a node that are copied.
const ATTRIBUTES: [&str; 22] = [
    "rf_id",
    "fw_parent",
    "seq_id",
    "scope",
    "tid",
    "fw_tid",
    "op_schema",
    "kernel_backend",
    "tensor_range",
    "collective_name",
    "dtype",
    "in_msg_nelems",
    "out_msg_nelems",
    "in_split_size",
    "out_split_size",
    "global_rank_start",
    "global_rank_stride",
    "pg_name",
    "pg_desc",
    "pg_size",
    "is_asynchronized_op",
    "comm_id",
];

/// Scope of a node that the program itself annotates: `RecordScope::USER_SCOPE`.
const USER_SCOPE: u64 = 7;

/// Returns a field of the trace itself; `None` to leave it out.
pub(super) fn header_field(key: &str, value: Value, _: &mut Names) -> Option<Value> {
    HEADER.contains(&key).then_some(value)
}

/// Replaces the names of a node.
pub(super) fn replace_names(node: &mut Map<String, Value>, names: &mut Names) {
    rows::retain(node, &FIELDS, names);
    let mut scope = node.get("scope").and_then(Value::as_u64);
    if let Some(Value::Array(attributes)) = node.get_mut("attrs") {
        attributes.retain(|attribute| is_known(attribute, names));
        for attribute in attributes {
            let name = attribute["name"].as_str().unwrap_or_default().to_owned();
            match (&name[..], attribute.get_mut("value")) {
                ("scope", Some(value)) => scope = value.as_u64(),
                ("pg_name" | "pg_desc", Some(Value::String(group))) => *group = names.group(group),
                _ => {}
            }
        }
    }
    let name = node.get("name").and_then(Value::as_str).unwrap_or_default();
    let name = name.to_owned();
    for side in ["inputs", "outputs"] {
        if let Some(values) = node.get_mut(side).and_then(|side| side.get_mut("values")) {
            replace_value(values, &name, 0, names);
        }
    }
    if scope == Some(USER_SCOPE)
        && let Some(Value::String(text)) = node.get_mut("name")
    {
        *text = names.annotation(text);
    }
}

fn is_known(attribute: &Value, names: &mut Names) -> bool {
    let name = attribute["name"].as_str().unwrap_or_default();
    let is_known = ATTRIBUTES.contains(&name);
    if !is_known {
        names.leave_out(name);
    }
    is_known
}

/// Replaces the texts in an argument of an op; `depth`: number of lists around it.
fn replace_value(value: &mut Value, op: &str, depth: u32, names: &mut Names) {
    match value {
        Value::Array(values) => {
            for value in values {
                replace_value(value, op, depth + 1, names);
            }
        }
        Value::String(text) => {
            *text = match op {
                "## process_group:init ##" => groups(text, names),
                // its arguments are the group's name and description, and the kind of communication
                "record_param_comms" if depth > 1 => names.group(text),
                "record_param_comms" => std::mem::take(text),
                _ => names.value(text),
            };
        }
        _ => {}
    }
}

/// Replaces the names of process groups in their configuration, which is JSON in a text.
fn groups(text: &str, names: &mut Names) -> String {
    match nested_json(text) {
        Some(groups @ Value::Array(_)) => {
            let mut config = serde_json::json!({ "pg_config": groups });
            config = rows::distributed(config, names);
            config["pg_config"].to_string()
        }
        _ => names.value(text),
    }
}
