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

/// Fields of a node's inputs and outputs.
const SIDE: [&str; 4] = ["values", "shapes", "types", "strides"];

/// Returns a field of the trace itself; `None` to leave it out.
pub(super) fn header_field(key: &str, mut value: Value, names: &mut Names) -> Option<Value> {
    match (key, &mut value) {
        // a time of day
        ("time" | "schema", Value::String(text)) => {
            let mut letters = text.chars();
            let is_plain = |letter: char| letter.is_ascii_digit() || "-: .chakrT+".contains(letter);
            letters.all(is_plain).then_some(value)
        }
        _ if HEADER.contains(&key) => {
            rows::keep_plain(&mut value, names);
            Some(value)
        }
        _ => None,
    }
}

/// Replaces the names of a node.
pub(super) fn replace_names(node: &mut Map<String, Value>, names: &mut Names) {
    rows::retain(node, &FIELDS, names);
    let name = node.get("name").and_then(Value::as_str).unwrap_or_default();
    let name = name.to_owned();
    for (key, value) in node.iter_mut() {
        match (&key[..], value) {
            ("name", Value::String(text)) => *text = names.op(text),
            ("op_schema", Value::String(text)) => *text = schema(text),
            ("inputs" | "outputs", Value::Object(side)) => {
                rows::retain(side, &SIDE, names);
                for (key, value) in side {
                    match &key[..] {
                        "values" => replace_value(value, &name, 0, names),
                        "types" => rows::keep_types(value, names),
                        _ => rows::keep_plain(value, names),
                    }
                }
            }
            ("inputs" | "outputs", value) => replace_value(value, &name, 0, names),
            ("input_types" | "output_types", value) => rows::keep_types(value, names),
            ("attrs", Value::Array(attributes)) => {
                attributes.retain_mut(|attribute| replace_attribute(attribute, names));
            }
            (_, value) => rows::keep_plain(value, names),
        }
    }
}

/// Replaces the names in an attribute; returns false to leave it out.
fn replace_attribute(attribute: &mut Value, names: &mut Names) -> bool {
    let Value::Object(fields) = attribute else {
        return false;
    };
    let name = fields.get("name").and_then(Value::as_str);
    let name = name.unwrap_or_default().to_owned();
    if !ATTRIBUTES.contains(&&name[..]) {
        names.leave_out(&name);
        return false;
    }
    rows::retain(fields, &["name", "type", "value"], names);
    if let Some(Value::String(text)) = fields.get_mut("type") {
        *text = names.type_text(text);
    }
    match (&name[..], fields.get_mut("value")) {
        ("pg_name" | "pg_desc", Some(Value::String(group))) => *group = names.group(group),
        ("collective_name", Some(Value::String(kind))) => *kind = names.collective(kind),
        ("op_schema", Some(Value::String(text))) => *text = schema(text),
        ("dtype" | "kernel_backend" | "in_split_size" | "out_split_size", Some(value)) => {
            rows::keep_types(value, names);
        }
        (_, Some(value)) => rows::keep_plain(value, names),
        (_, None) => {}
    }
    true
}

/// Returns the schema of an op; empty for a text that is none.
fn schema(text: &str) -> String {
    let is_schema = text.split_once('(').is_some_and(|(op, rest)| {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_.:".contains(letter);
        op.contains("::") && op.chars().all(is_name) && rest.contains(") -> ")
    });
    if is_schema {
        text.to_owned()
    } else {
        String::new()
    }
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
                "record_param_comms" => names.collective(text),
                _ => names.value(text),
            };
        }
        Value::Object(_) => *value = Value::Null,
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
