//! Writes, reads and checks Chakra execution traces.
//!
//! ```text
//! LinkedTrace ──> et::write_et          protobuf (.et), for simulators: a graph of slices
//!             └─> etplus::write_etplus  ET+ JSON, for chakra_converter and et_replay: the op tree
//! ET+ ──────────> etplus::rebuilt_traces   two traces from its nodes, to be linked again
//! all ranks ────> agree                  decisions shared by the ranks' files
//!                 astra                  additional files for ASTRA-sim
//! .et, ET+ ─────> read::read ──> ChakraGraph ─┬─> check::check ──> findings
//!                                             ├─> convert ───────> graphs, traces
//!                                             └─> picture ───────> Graphviz, GraphML
//! .et, its JSON <──────> messages ───> complete, as in protobuf
//! log of ASTRA-sim, .et ─> simulated ─> comparison with measurements
//! ```
//! The wire format is MLCommons Chakra's public schema 0.0.4 (`schema/et_def.proto`). The crate
//! does no file I/O: readers and writers take byte streams. Both writers are linear in the trace
//! and hold one block of output per thread in memory.

mod agreement;
mod aligned_ranks;
pub mod astra;
mod attribute_values;
mod captured;
pub mod check;
pub mod convert;
mod demotion;
pub mod et;
pub mod etplus;
pub mod finding;
pub mod messages;
mod network;
mod options;
mod ordered_writer;
pub mod picture;
mod rank_agreement;
pub mod read;
mod roofline_device;
pub mod simulated;
mod transfers;
mod wire;

use std::borrow::Cow;

pub use agreement::{RunAgreement, agree, simulated_sizes, write_groups};
pub use demotion::Demotion;
pub use network::{
    CollectiveImplementation, CollectiveImplementations, GroupFit, HeldOut, KindFit, NetworkFit,
    NetworkLevel, example_broadcast_micros, fit_network,
};
pub use options::{
    AttributeSet, LatencyMode, RooflineCover, TracePart, WriteOptions, WriteSummary,
};
pub use rank_agreement::{CommDecision, RankAgreement};
pub use roofline_device::{KernelTimes, RooflineDevice, RooflinePeaks};
pub use transfers::set_waits;

/// Messages of the Chakra schema, generated from `schema/et_def.proto`.
#[allow(
    missing_docs,
    clippy::all,
    reason = "generated; the schema says what fields mean"
)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/chakra_proto_msg.rs"));
    include!(concat!(env!("OUT_DIR"), "/chakra_proto_msg.serde.rs"));
}

/// Decodes text, replacing bytes that are not UTF-8. Nearly all text is valid, and checking that
/// first is cheaper.
fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

#[cfg(test)]
mod tests;
