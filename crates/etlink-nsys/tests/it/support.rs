//! Exports of traces that were drawn or recorded.

use etlink_host::HostReadOptions;
use etlink_kineto::KinetoReadOptions;
use etlink_model::{DeviceTrace, HostTrace, KeepEvents};
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

/// A device trace of the project's recordings.
pub(crate) fn recorded(case: &str, rank: usize) -> DeviceTrace {
    read_kineto(&unpacked(&format!("{case}/kineto_trace_{rank}.json.gz")))
}

/// The host trace beside it.
pub(crate) fn recorded_host(case: &str, rank: usize) -> HostTrace {
    let text = unpacked(&format!("{case}/torch_et_{rank}.json.gz"));
    let host = etlink_host::read(&text[..], HostReadOptions { threads: 1 });
    let mut host = host.expect("a host trace");
    host.tensors = Some(etlink_host::tensor_uses(&host));
    host
}

/// The text of a recorded file.
fn unpacked(name: &str) -> Vec<u8> {
    let crates = env!("CARGO_MANIFEST_DIR");
    let path = format!("{crates}/../../testdata/pairs/{name}");
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = vec![];
    let mut packed = MultiGzDecoder::new(file);
    packed.read_to_end(&mut text).expect("gzip");
    text
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
