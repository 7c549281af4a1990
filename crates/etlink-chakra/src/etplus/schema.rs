//! Which schema the output has.
//!
//! `chakra_converter` knows 1.0.2, 1.0.3, 1.1.0 and 1.1.1 (all -chakra.0.0.4). Everything
//! else is raised to the oldest of these whose layout is a superset: 1.1.0 has communication
//! attributes, which are written where they are known, and 1.1.1 has strides besides.

use etlink_link::LinkedTrace;
use etlink_model::NameId;

const KNOWN: [&str; 4] = [
    "1.0.2-chakra.0.0.4",
    "1.0.3-chakra.0.0.4",
    "1.1.0-chakra.0.0.4",
    STRIDES,
];
const STRIDES: &str = "1.1.1-chakra.0.0.4";
const NO_STRIDES: &str = "1.1.0-chakra.0.0.4";

/// The schema that a trace is written in.
pub(crate) fn of(trace: &LinkedTrace) -> &'static str {
    let Some(host) = &trace.host else {
        return STRIDES;
    };
    let said = &host.header.schema;
    if let Some(known) = KNOWN.into_iter().find(|known| known == said) {
        return known;
    }
    let mut lists = host.nodes.inputs.iter().chain(&host.nodes.outputs);
    if lists.any(|list| list.strides != NameId::EMPTY) {
        STRIDES
    } else {
        NO_STRIDES
    }
}

/// Whether `inputs` and `outputs` have `strides`.
pub(crate) fn has_strides(schema: &str) -> bool {
    schema == STRIDES
}
