//! Perfetto's own trace format: its messages, and a reader of the traces that etlink wrote.
//!
//! ```text
//! etlink-report ─ messages ─> x.pftrace ─ KinetoText ─> Kineto JSON ─> etlink-kineto
//! ```
//! Perfetto's format has ranges on tracks, and no correlation ids, streams or launch calls. etlink
//! writes what the recording says of a range into a group of arguments of its own
//! ([`words::RECORDED`]). [`KinetoText`] makes the recording of it, packet by packet, so that
//! nothing behind it knows the difference. PyTorch's own CUPTI collector writes such traces too:
//! [`TorchText`]. A trace of another program has no correlation ids ([`perfetto_origin`]).

mod kineto_text;
mod origin;
mod packets;
mod strings;
mod torch_text;

/// The messages of Perfetto's schema, generated from `schema/trace.proto`.
#[allow(
    missing_docs,
    clippy::all,
    reason = "generated; the schema says what fields mean"
)]
pub mod schema {
    include!(concat!(env!("OUT_DIR"), "/perfetto.protos.rs"));
}

pub mod words;

pub use kineto_text::KinetoText;
pub use origin::{PerfettoOrigin, perfetto_origin};
pub use torch_text::TorchText;
