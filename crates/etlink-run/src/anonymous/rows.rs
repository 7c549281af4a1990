//! Names in device traces.

use super::names::Names;
use serde_json::{Map, Value};

/// Arguments of events that are copied. Those with texts of the program are replaced.
const ARGUMENTS: [&str; 76] = [
    "Addr",
    "Bytes",
    "Collective name",
    "Comms Id",
    "Is asynchronized op",
    "Concrete Inputs",
    "Device Id",
    "Device Type",
    "Ev Idx",
    "External id",
    "Fwd thread id",
    "Global rank start",
    "Global rank stride",
    "Group size",
    "In msg nelems",
    "In split size",
    "Input Dims",
    "Input Strides",
    "Input type",
    "Op count",
    "Out msg nelems",
    "Out split size",
    "Process Group Description",
    "Process Group ID",
    "Process Group Name",
    "Process Group Ranks",
    "Python id",
    "Python module id",
    "Python parent id",
    "Rank",
    "Record function id",
    "Sequence number",
    "Seq",
    "Total Allocated",
    "Total Reserved",
    "after",
    "block",
    "blocks per SM",
    "bytes",
    "cbid",
    "cid",
    "context",
    "correlation",
    "cuda_sync_kind",
    "device",
    "dtype",
    "est. achieved occupancy %",
    "external id",
    "external ts",
    "finished",
    "flow",
    "frees",
    "graph id",
    "graph node id",
    "grid",
    "kernel",
    "kernel_backend",
    "kernel_name",
    "kind",
    "labels",
    "memory bandwidth (GB/s)",
    "name",
    "num_stages",
    "num_warps",
    "priority",
    "queued",
    "registers per thread",
    "scope",
    "shared memory",
    "size",
    "sort_index",
    "stream",
    "wait_on_cuda_event_id",
    "wait_on_cuda_event_record_corr_id",
    "wait_on_stream",
    "warps per SM",
];

/// Fields of an event that are copied, except its times.
const FIELDS: [&str; 9] = ["ph", "cat", "name", "pid", "tid", "id", "s", "bp", "args"];

/// Fields of a trace that are copied if they are numbers.
const HEADER: [&str; 13] = [
    "schemaVersion",
    "record_shapes",
    "profile_memory",
    "with_stack",
    "with_flops",
    "with_modules",
    "cuda_driver_version",
    "cuda_runtime_version",
    "cupti_version",
    "roctracer_version",
    "hip_runtime_version",
    "hip_driver_version",
    "baseTimeNanoseconds",
];

/// Arguments whose texts only PyTorch and the profiler write.
const TYPES: [&str; 9] = [
    "Input type",
    "dtype",
    "cuda_sync_kind",
    "kernel",
    "kernel_backend",
    "kernel_name",
    "kind",
    "scope",
    "grid",
];

/// Fields of a process group, of the distributed run, and of a device that are copied.
const GROUP: [&str; 6] = [
    "pg_name",
    "pg_desc",
    "pg_size",
    "ranks",
    "group_size",
    "group_count",
];
const DISTRIBUTED: [&str; 6] = [
    "backend",
    "rank",
    "world_size",
    "pg_count",
    "pg_config",
    "nccl_version",
];

/// Names of metadata events in Chrome's format.
const METADATA: [&str; 5] = [
    "process_name",
    "process_labels",
    "process_sort_index",
    "thread_name",
    "thread_sort_index",
];

/// Returns a field of the trace itself; `None` to leave it out.
pub(super) fn header_field(key: &str, value: Value, names: &mut Names) -> Option<Value> {
    match key {
        "traceName" => Some("kineto_trace.json".into()),
        "host_name" => Some(names.replace("host", value.as_str()?).into()),
        "displayTimeUnit" => matches!(value.as_str()?, "ms" | "ns").then_some(value),
        "distributedInfo" => Some(distributed(value, names)),
        "deviceProperties" => Some(devices(value, names)),
        key if HEADER.contains(&key) => value.is_number().then_some(value),
        _ => None,
    }
}

/// Keeps the numbers and the names of devices.
fn devices(mut value: Value, names: &mut Names) -> Value {
    for device in value.as_array_mut().into_iter().flatten() {
        let Value::Object(fields) = device else {
            *device = Value::Null;
            continue;
        };
        fields.retain(|key, value| {
            let is_kept = value.is_number() || (key == "name" && value.is_string());
            if !is_kept {
                names.leave_out(key);
            }
            is_kept
        });
    }
    value
}

/// Replaces the names of process groups.
pub(super) fn distributed(mut value: Value, names: &mut Names) -> Value {
    let Value::Object(fields) = &mut value else {
        return Value::Null;
    };
    retain(fields, &DISTRIBUTED, names);
    for (key, value) in fields {
        match (&key[..], value) {
            ("pg_config", Value::Array(groups)) => {
                for group in groups {
                    replace_group(group, names);
                }
            }
            ("backend", Value::String(text)) => *text = names.type_text(text),
            ("nccl_version", Value::String(text)) if is_version(text) => {}
            (_, value) => keep_plain(value, names),
        }
    }
    value
}

fn is_version(text: &str) -> bool {
    let mut letters = text.bytes();
    letters.all(|letter| letter.is_ascii_digit() || letter == b'.')
}

fn replace_group(group: &mut Value, names: &mut Names) {
    let Value::Object(fields) = group else {
        *group = Value::Null;
        return;
    };
    retain(fields, &GROUP, names);
    for (key, value) in fields {
        match (&key[..], value) {
            ("pg_name" | "pg_desc", Value::String(name)) => *name = names.group(name),
            (_, value) => keep_plain(value, names),
        }
    }
}

/// Replaces the names of an event.
pub(super) fn replace_names(event: &mut Map<String, Value>, names: &mut Names) {
    retain(event, &FIELDS, names);
    let text_of = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    let (category, is_metadata) = (text_of("cat").to_owned(), text_of("ph") == "M");
    for (key, value) in event.iter_mut() {
        let text = match value {
            Value::String(text) => text,
            Value::Array(_) | Value::Object(_) if key != "args" => {
                *value = Value::Null;
                continue;
            }
            _ => continue,
        };
        *text = match &key[..] {
            "name" if is_metadata && METADATA.contains(&&text[..]) => std::mem::take(text),
            "name" => match &category[..] {
                "python_function" => names.frame(text),
                "cpu_op" | "Operator" => names.op(text),
                ""
                | "user_annotation"
                | "gpu_user_annotation"
                | "Trace"
                | "cpu_instant_event"
                | "etlink_wait" => names.annotation(text),
                // the rest is of runtimes and devices, whatever the profiler calls them
                _ => std::mem::take(text),
            },
            "pid" | "tid" | "id" => names.place(text),
            "cat" => names.type_text(text),
            // one letter each: phase, scope, and binding point
            _ if text.len() > 1 => names.replace("text", text),
            _ => std::mem::take(text),
        };
    }
    match event.get_mut("args") {
        Some(Value::Object(arguments)) => replace_arguments(arguments, names),
        Some(_) => {
            event.remove("args");
        }
        None => {}
    }
}

fn replace_arguments(arguments: &mut Map<String, Value>, names: &mut Names) {
    retain(arguments, &ARGUMENTS, names);
    for (key, value) in arguments {
        match (&key[..], value) {
            ("Process Group Name" | "Process Group Description", Value::String(name)) => {
                *name = names.group(name);
            }
            ("name" | "labels", Value::String(name)) => *name = names.place(name),
            ("Collective name", Value::String(name)) => *name = names.collective(name),
            (key, value) if TYPES.contains(&key) => keep_types(value, names),
            (_, value) => keep_plain(value, names),
        }
    }
}

/// Keeps types, also in lists.
pub(super) fn keep_types(value: &mut Value, names: &mut Names) {
    match value {
        Value::String(text) => *text = names.type_text(text),
        Value::Array(values) => values.iter_mut().for_each(|value| keep_types(value, names)),
        Value::Object(_) => *value = Value::Null,
        _ => {}
    }
}

/// Keeps numbers, flags and devices, also in lists, and replaces other texts.
pub(super) fn keep_plain(value: &mut Value, names: &mut Names) {
    match value {
        Value::String(text) => *text = names.value(text),
        Value::Array(values) => values.iter_mut().for_each(|value| keep_plain(value, names)),
        Value::Object(_) => *value = Value::Null,
        _ => {}
    }
}

/// Leaves out all fields but the known ones.
pub(super) fn retain(fields: &mut Map<String, Value>, known: &[&str], names: &mut Names) {
    fields.retain(|key, _| {
        let is_known = known.contains(&&key[..]);
        if !is_known {
            names.leave_out(key);
        }
        is_known
    });
}
