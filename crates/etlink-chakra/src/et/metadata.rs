//! Writes the message before the nodes.
//!
//! Readers take the first message for metadata unconditionally, so a file without metadata silently
//! loses its first node.

use super::attributes::{ATTRIBUTE_SET, THREAD_PID};
use super::shared_texts::SharedTexts;
use crate::WriteOptions;
use crate::wire::schema::metadata;
use crate::wire::write::MessageWriter;
use etlink_link::LinkedTrace;
use etlink_model::TrackLabel;

/// Version of the Chakra schema of the nodes.
pub(crate) const SCHEMA_VERSION: &str = "0.0.4";
/// Value of `schema` without a host trace that states one.
const NO_HOST_SCHEMA: &str = "1.1.1-chakra.0.0.4";
/// Attribute that states the number of nodes that follow.
pub(crate) const NODE_COUNT: &str = "node_count";
/// Program that wrote the file.
pub(crate) const WRITER: &str = concat!("etlink ", env!("CARGO_PKG_VERSION"));

/// Appends a length-delimited `GlobalMetadata`. All times in the file include `clock_offset_ns`,
/// and `clock_drift_ppb` of the time since `clock_at_ns`, which counts from the Unix epoch by the
/// rank's own clock.
///
/// `node_count` is the number of nodes that follow. A file truncated between two messages looks
/// complete to any reader, because no message is marked as the last. Stock readers keep unknown
/// attributes of metadata without inspecting them (`et_feeder.cpp` reads the message and continues,
/// `chakra_jsonizer` prints it).
pub(crate) fn global_metadata(
    trace: &LinkedTrace,
    options: &WriteOptions<'_>,
    texts: &SharedTexts<'_>,
    node_count: u64,
    bytes: Vec<u8>,
) -> Vec<u8> {
    let mut message = MessageWriter::after(bytes, metadata::ATTR);
    message.begin();
    message.text(metadata::VERSION, SCHEMA_VERSION);
    let host = trace.host.as_ref().map(|host| &host.header);
    let schema = host.map_or("", |header| &header.schema);
    message.attr_text(
        "schema",
        if schema.is_empty() {
            NO_HOST_SCHEMA
        } else {
            schema
        },
    );
    message.attr_text("writer", WRITER);
    message.attr_uint(NODE_COUNT, node_count);
    message.attr_text(ATTRIBUTE_SET, options.attributes.name());
    if let Some(pid) = pid(trace) {
        message.attr_uint("pid", pid);
    }
    if let Some(thread_pid) = thread_pid(trace).filter(|own| pid(trace) != Some(*own)) {
        message.attr_uint(THREAD_PID, thread_pid);
    }
    if let Some(header) = host {
        message.attr_text("time", &header.time);
        // Times of the observer's clock: a negative one is damage, and the attributes are unsigned.
        for (name, ms) in [
            ("start_ts", header.start_ms),
            ("finish_ts", header.finish_ms),
        ] {
            if let Some(ms) = ms.and_then(|ms| u64::try_from(ms).ok()) {
                message.attr_uint(name, ms);
            }
        }
    }
    let device = &trace.device.header;
    // Values known to the caller take precedence over the device trace, which may lack them.
    let rank = trace.report.rank.or(device.rank);
    for (name, value) in [
        ("rank", rank.map(|rank| rank.0)),
        ("world_size", trace.report.world_size.or(device.world_size)),
    ] {
        if let Some(value) = value {
            message.attr_int(name, value);
        }
    }
    message.attr_int("base_time_ns", device.base_ns.0);
    let clock = &options.clock;
    // A file whose times are as recorded states nothing about clocks.
    if clock.offset_ns != 0 {
        message.attr_int("clock_offset_ns", clock.offset_ns);
    }
    if let Some(drift) = clock.drift.filter(|drift| drift.applied) {
        message.attr_int("clock_drift_ppb", drift.ppb);
        message.attr_int("clock_at_ns", clock.at_ns.0);
    }
    texts.write(&mut message);
    message.end();
    message.bytes()
}

/// Returns the recorded process: the process in the host trace, or else the first thread's process.
pub(crate) fn pid(trace: &LinkedTrace) -> Option<u64> {
    // The observer records one process. A device trace may contain several; the first one is the
    // recorded process.
    let said = trace.host.as_ref().and_then(|host| host.header.pid);
    match said {
        Some(said) => u64::try_from(said).ok(),
        None => thread_pid(trace),
    }
}

/// Returns the first thread's process.
pub(crate) fn thread_pid(trace: &LinkedTrace) -> Option<u64> {
    let threads = &trace.device.threads;
    let seen = threads.iter().find_map(|thread| match thread.pid {
        TrackLabel::Int(pid) => Some(pid),
        TrackLabel::Text(_) => None,
    });
    u64::try_from(seen?).ok()
}
