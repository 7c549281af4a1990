//! Reads the metadata around `traceEvents`, which Kineto writes before the events, after them, or
//! on both sides.

use crate::kineto::json_values::{list, object};
use etlink_json::{FieldScan, JsonValue, scan_fields, unescape};
use etlink_model::{DeviceHeader, DeviceTrace, GlobalRank, KeepEvents, ProcessGroup, UnixNs};
use rustc_hash::FxHashSet;

/// Keys that recorders write themselves. Others are the program's, such as its environment, which
/// may hold secrets, and are not kept.
const RECORDED_KEYS: [&str; 21] = [
    "ERROR",
    "WARNING",
    "baseTimeNanoseconds",
    "cuda_driver_version",
    "cuda_runtime_version",
    "cupti_version",
    "deviceProperties",
    "displayTimeUnit",
    "distributedInfo",
    "hip_driver_version",
    "hip_runtime_version",
    "host_name",
    "profile_memory",
    "record_shapes",
    "roctracer_version",
    "schemaVersion",
    "traceName",
    "trace_id",
    "with_flops",
    "with_modules",
    "with_stack",
];

/// Keys of the document seen so far.
#[derive(Default)]
pub(crate) struct KnownKeys {
    keys: FxHashSet<Vec<u8>>,
    /// First repeated key; `None` if no key was repeated.
    pub(crate) first_repeated: Option<String>,
    pub(crate) repeated: u64,
}

impl KnownKeys {
    /// Records a key.
    pub(crate) fn add(&mut self, key: &[u8]) {
        if !self.keys.insert(key.to_vec()) {
            self.repeated += 1;
            self.first_repeated
                .get_or_insert_with(|| format!("{:?}", unescape(key)));
        }
    }
}

/// Reads all known metadata of `text` into `trace`.
pub(crate) fn read(
    text: &[u8],
    trace: &mut DeviceTrace,
    keys: &mut KnownKeys,
    keep: KeepEvents,
) -> FieldScan {
    let mut details = trace.details.take();
    if keep == KeepEvents::Everything {
        details.get_or_insert_default();
    }
    // The counts wait until `header` is no longer borrowed from the trace.
    let (header, mut counts) = (&mut trace.header, vec![]);
    let fields = scan_fields(text, |key, value| {
        keys.add(key);
        if let Some(details) = &mut details
            && RECORDED_KEYS.iter().any(|own| own.as_bytes() == key)
        {
            let entry = (unescape(key).into_owned(), value_text(value));
            details.header.push(entry);
        }
        match key {
            b"baseTimeNanoseconds" => header.base_ns = value.int().map_or(header.base_ns, UnixNs),
            b"trace_id" => header.trace_id = value.text().into_owned(),
            b"host_name" => header.host_name = value.text().into_owned(),
            // The profiler's log of the recording, by severity.
            b"ERROR" | b"WARNING" => list(value, |line| header.note_diagnosis(&line.text())),
            b"distributedInfo" => object(value, |key, value| read_distributed(key, value, header)),
            b"deviceProperties" => {
                // If a key is repeated, the last value counts, as in Python.
                header.devices.clear();
                list(value, |device| {
                    let (mut id, mut count) = (None, None);
                    object(device, |key, value| match key {
                        b"name" => header.devices.push(value.text().into_owned()),
                        b"id" => id = value.int(),
                        b"numSms" => {
                            count = value
                                .uint()
                                .and_then(|n| u32::try_from(n).ok())
                                // A count of 0 carries no information, and coverage would divide by
                                // it.
                                .filter(|n| *n > 0)
                        }
                        _ => {}
                    });
                    counts.extend(id.zip(count));
                });
            }
            _ => {}
        }
    });
    counts
        .into_iter()
        .for_each(|(device, count)| trace.note_multiprocessors(device, count));
    trace.details = details;
    fields
}

/// Returns a value as written in the file.
fn value_text(value: JsonValue<'_>) -> String {
    let text = String::from_utf8_lossy(value.raw());
    match value {
        JsonValue::Text(_) => format!("\"{text}\""),
        JsonValue::Word(_) | JsonValue::Nested(_) => text.into_owned(),
    }
}

fn read_distributed(key: &[u8], value: JsonValue<'_>, header: &mut DeviceHeader) {
    match key {
        b"rank" => header.rank = value.int().map(GlobalRank),
        b"world_size" => header.world_size = value.int(),
        b"backend" => header.backend = value.text().into_owned(),
        b"pg_config" => list(value, |group| {
            let mut read = ProcessGroup::default();
            object(group, |key, value| match key {
                b"pg_name" => read.name = value.text().into_owned(),
                b"pg_desc" => read.desc = value.text().into_owned(),
                b"backend_config" => read.backend = value.text().into_owned(),
                b"pg_size" => read.size = value.uint().unwrap_or(0),
                b"ranks" => list(value, |rank| read.ranks.extend(rank.uint())),
                _ => {}
            });
            header.groups.push(read);
        }),
        _ => {}
    }
}
