//! The message before the nodes.
//!
//! Readers take the first message for it whatever it is, so a file without one loses its
//! first node in silence.

use super::attributes::{ATTRIBUTE_SET, THREAD_PID};
use super::shared_texts::SharedTexts;
use crate::WriteOptions;
use crate::wire::schema::metadata;
use crate::wire::write::MessageWriter;
use etlink_link::LinkedTrace;
use etlink_model::TrackLabel;

/// Version of the Chakra schema that the nodes follow.
pub(crate) const SCHEMA_VERSION: &str = "0.0.4";
/// What `schema` says when no host trace was there to say it.
const NO_HOST_SCHEMA: &str = "1.1.1-chakra.0.0.4";
/// The attribute that states how many nodes follow.
pub(crate) const NODE_COUNT: &str = "node_count";
/// Who wrote the file.
pub(crate) const WRITER: &str = concat!("etlink ", env!("CARGO_PKG_VERSION"));

/// Appends `GlobalMetadata` after its length. All times in the file have had `clock_offset_ns`
/// added, and `clock_drift_ppb` of the time since `clock_at_ns`, which is since the Unix epoch by
/// the rank's own clock.
///
/// `node_count` is how many nodes follow. A cut between two messages leaves a file that is whole to
/// any reader: no message states that it is the last. Stock readers keep attributes of metadata
/// without looking at them (`et_feeder.cpp` reads the message and goes on, `chakra_jsonizer` prints
/// it).
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
        // Times of the observer's clock: a negative one is damage, and the keys are unsigned.
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
    // What the caller knows goes before what the device trace says: that may say nothing.
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
    // A file whose times are as recorded says nothing of clocks.
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

/// The recorded process: what the host trace says, else the first thread's process.
pub(crate) fn pid(trace: &LinkedTrace) -> Option<u64> {
    // The observer records one process; a device trace may show several, of which the first is the
    // recorded one.
    let said = trace.host.as_ref().and_then(|host| host.header.pid);
    match said {
        Some(said) => u64::try_from(said).ok(),
        None => thread_pid(trace),
    }
}

/// The first thread's process.
pub(crate) fn thread_pid(trace: &LinkedTrace) -> Option<u64> {
    let threads = &trace.device.threads;
    let seen = threads.iter().find_map(|thread| match thread.pid {
        TrackLabel::Int(pid) => Some(pid),
        TrackLabel::Text(_) => None,
    });
    u64::try_from(seen?).ok()
}
