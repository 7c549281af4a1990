//! Exports of traces that were drawn or recorded.

use etlink_kineto::KinetoReadOptions;
use etlink_model::{DeviceTrace, KeepEvents};
use etlink_nsys::{NsysReadOptions, NsysSchema};
use flate2::read::MultiGzDecoder;
use rusqlite::Connection;
use std::io::Read;

pub(crate) fn read_kineto(text: &[u8]) -> DeviceTrace {
    let options = KinetoReadOptions {
        threads: 1,
        shapes: true,
        keep: KeepEvents::Graph,
    };
    etlink_kineto::read(text, options).expect("a Kineto trace")
}

/// A recording of the project's.
pub(crate) fn recorded(case: &str, rank: usize) -> DeviceTrace {
    let crates = env!("CARGO_MANIFEST_DIR");
    let path = format!("{crates}/../../testdata/pairs/{case}/kineto_trace_{rank}.json.gz");
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = vec![];
    let mut packed = MultiGzDecoder::new(file);
    packed.read_to_end(&mut text).expect("gzip");
    read_kineto(&text)
}

/// The trace as an export has it.
pub(crate) fn exported(trace: &DeviceTrace, schema: NsysSchema) -> Connection {
    let connection = Connection::open_in_memory().expect("memory");
    etlink_nsys::write(trace, &connection, schema).expect("writes");
    connection
}

pub(crate) fn read_export(connection: &Connection) -> DeviceTrace {
    etlink_nsys::read(connection, NsysReadOptions::default()).expect("reads")
}
