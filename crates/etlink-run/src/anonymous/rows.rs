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

/// Fields of an event that are copied.
const FIELDS: [&str; 12] = [
    "ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "s", "bp", "args", "tts",
];

/// Fields of a trace that are copied as they are.
const HEADER: [&str; 15] = [
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
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "deviceProperties",
];

/// Returns a field of the trace itself; `None` to leave it out.
pub(super) fn header_field(key: &str, value: Value, names: &mut Names) -> Option<Value> {
    match key {
        "traceName" => Some("kineto_trace.json".into()),
        "host_name" => Some(names.replace("host", value.as_str()?).into()),
        "distributedInfo" => Some(distributed(value, names)),
        key => HEADER.contains(&key).then_some(value),
    }
}

/// Replaces the names of process groups.
pub(super) fn distributed(mut value: Value, names: &mut Names) -> Value {
    let groups = value.get_mut("pg_config").and_then(Value::as_array_mut);
    for group in groups.into_iter().flatten() {
        for field in ["pg_name", "pg_desc"] {
            if let Some(Value::String(name)) = group.get_mut(field) {
                *name = names.group(name);
            }
        }
    }
    value
}

/// Replaces the names of an event.
pub(super) fn replace_names(event: &mut Map<String, Value>, names: &mut Names) {
    retain(event, &FIELDS, names);
    let category = event.get("cat").and_then(Value::as_str).unwrap_or_default();
    let category = category.to_owned();
    let is_metadata = event.get("ph").is_some_and(|phase| phase == "M");
    if let Some(Value::String(name)) = event.get_mut("name") {
        *name = match &category[..] {
            // names of metadata are Chrome's
            _ if is_metadata => std::mem::take(name),
            "python_function" => names.frame(name),
            "cpu_op" | "kernel" | "gpu_memcpy" | "gpu_memset" | "cuda_runtime" | "cuda_driver"
            | "cuda_sync" | "overhead" | "fwdbwd" | "ac2g" | "async_gpu" | "cpu_instant_event"
            | "Trace" | "hip_runtime" | "xpu_runtime" | "xpu_driver" | "Operator" | "Kernel"
            | "Runtime" => std::mem::take(name),
            _ => names.annotation(name),
        };
    }
    let Some(Value::Object(arguments)) = event.get_mut("args") else {
        return;
    };
    retain(arguments, &ARGUMENTS, names);
    for (key, value) in arguments {
        match (&key[..], value) {
            ("Process Group Name" | "Process Group Description", Value::String(name)) => {
                *name = names.group(name);
            }
            ("name", Value::String(name)) => *name = place(name, names),
            ("Concrete Inputs", Value::Array(values)) => {
                for value in values {
                    if let Value::String(text) = value {
                        *text = names.value(text);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Returns the name of a process or a thread. Streams, and threads of PyTorch, keep theirs.
fn place(name: &str, names: &mut Names) -> String {
    let thread = name.strip_prefix("thread ");
    let (number, own) = match thread.and_then(|rest| rest.split_once(" (")) {
        Some((number, own)) => (Some(number), own.trim_end_matches(')')),
        None => (None, name),
    };
    let is_known = own.starts_with("stream ")
        || own.starts_with("Device ")
        || own.starts_with("pt_")
        || own == "python"
        || own.starts_with("python3")
        || own.bytes().all(|byte| byte.is_ascii_digit());
    if is_known {
        return name.to_owned();
    }
    let own = names.replace("thread", own);
    number.map_or(own.clone(), |number| format!("thread {number} ({own})"))
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
