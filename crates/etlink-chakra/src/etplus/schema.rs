//! Chooses the schema of the output.
//!
//! A version that `chakra_converter` does not read is raised to the oldest version that it reads
//! and whose layout is a superset: 1.1.0 has communication attributes, which are written if known,
//! and 1.1.1 additionally has strides.

use etlink_link::LinkedTrace;
use etlink_model::{HostVersion, NameId};

/// Returns the version that a trace is written in.
pub(crate) fn of(trace: &LinkedTrace) -> HostVersion {
    let Some(host) = &trace.host else {
        return HostVersion::V1_1_1;
    };
    if let Some(known) = HostVersion::find_converted(&host.header.schema) {
        return known;
    }
    let mut lists = host.nodes.inputs.iter().chain(&host.nodes.outputs);
    if lists.any(|list| list.strides != NameId::EMPTY) {
        HostVersion::V1_1_1
    } else {
        HostVersion::V1_1_0
    }
}
