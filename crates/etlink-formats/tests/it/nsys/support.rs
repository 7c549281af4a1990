//! Exports, and recorded traces.

use etlink_formats::host::HostReadOptions;
use etlink_formats::kineto::KinetoReadOptions;
use etlink_formats::nsys::NsysReadOptions;
use etlink_model::{DeviceTrace, HostTrace, KeepEvents};
use flate2::read::MultiGzDecoder;
use rusqlite::Connection;
use std::io::Read;

pub(crate) fn read_kineto(text: &[u8]) -> DeviceTrace {
    let options = KinetoReadOptions {
        threads: 1,
        shapes: true,
        keep: KeepEvents::Graph,
    };
    etlink_formats::kineto::read(text, options).expect("a Kineto trace")
}

/// Reads a recorded device trace of the project.
pub(crate) fn recorded(case: &str, rank: usize) -> DeviceTrace {
    read_kineto(&unpacked(&format!("{case}/kineto_trace_{rank}.json.gz")))
}

/// Reads the host trace that belongs to it.
pub(crate) fn recorded_host(case: &str, rank: usize) -> HostTrace {
    let text = unpacked(&format!("{case}/torch_et_{rank}.json.gz"));
    let host = etlink_formats::host::read(&text[..], HostReadOptions { threads: 1 });
    let mut host = host.expect("a host trace");
    host.tensors = Some(etlink_formats::host::tensor_uses(&host));
    host
}

/// Returns the text of a recorded file.
pub(crate) fn unpacked(name: &str) -> Vec<u8> {
    let crates = env!("CARGO_MANIFEST_DIR");
    let path = format!("{crates}/../../testdata/pairs/{name}");
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut text = vec![];
    let mut packed = MultiGzDecoder::new(file);
    packed.read_to_end(&mut text).expect("gzip");
    text
}

/// Opens an export of the project.
pub(crate) fn export(name: &str) -> Connection {
    let bytes = unpacked(&format!("../nsys/{name}.sqlite.gz"));
    let mut connection = Connection::open_in_memory().expect("memory");
    connection
        .deserialize_read_exact("main", &bytes[..], bytes.len(), false)
        .expect("a database");
    connection
}

pub(crate) fn read_export(connection: &Connection) -> DeviceTrace {
    etlink_formats::nsys::read(connection, NsysReadOptions::default()).expect("reads")
}
