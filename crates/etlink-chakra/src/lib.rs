//! Writes, reads and checks Chakra execution traces.
//!
//! ```text
//! LinkedTrace ──> et::write_et          protobuf (.et), for simulators: a graph of slices
//!             └─> etplus::write_etplus  ET+ JSON, for chakra_converter and et_replay: the op tree
//! all ranks ────> agree                  what the ranks' files have to agree on; astra: what else a simulator wants
//! .et, ET+ ─────> read::read ──> Graph ──> check::check ──> findings
//! ```
//! The wire format is MLCommons Chakra's public schema 0.0.4 (`schemas/chakra/et_def.proto`).
//! All of it is pure: readers and writers take byte streams, nothing touches files. Both
//! writers are linear in the trace and hold one block of output per thread in memory.

pub mod astra;
mod captured;
pub mod check;
pub mod et;
pub mod etplus;
pub mod finding;
mod options;
mod ranks;
pub mod read;
mod relay;

use std::borrow::Cow;

pub use options::{Demotion, Latency, Part, WriteOptions, WriteSummary};
pub use ranks::{Agreed, Agreement, Fate, agree, simulated, write_groups};

/// The messages of the Chakra schema, generated from `schemas/chakra/et_def.proto`.
#[allow(
    missing_docs,
    clippy::all,
    reason = "generated; the schema says what fields mean"
)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/chakra_proto_msg.rs"));
}

/// Text with marks for what is not UTF-8. Nearly all is, and to see only that is cheaper.
fn utf8(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

#[cfg(test)]
mod testing;
