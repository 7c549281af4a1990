//! Perfetto's trace format: its messages, and readers that convert traces back to Kineto JSON.
//!
//! ```text
//! crate::perfetto ─ messages ─> x.pftrace ─ kineto_text ─> Kineto JSON ─> etlink-formats
//! ```
//! Perfetto's format has ranges on tracks, but no correlation ids, streams or launch calls. etlink
//! stores the recorded data of a range in its own group of arguments ([`words::RECORDED`]).
//! [`kineto_text()`] restores the recording from it, packet by packet, so that later stages see no
//! difference. PyTorch's own CUPTI collector writes such traces too: [`torch_text()`]. Traces of other
//! programs have no correlation ids ([`perfetto_origin`]).

mod kineto_text;
mod origin;
mod packets;
mod strings;
mod text_reader;
mod torch_text;

/// Messages of Perfetto's schema, generated from `schema/trace.proto`.
#[allow(
    missing_docs,
    clippy::all,
    reason = "generated; the schema says what fields mean"
)]
pub mod schema {
    include!(concat!(env!("OUT_DIR"), "/perfetto.protos.rs"));
}

pub mod words;

pub use kineto_text::kineto_text;
pub use origin::{PerfettoOrigin, perfetto_origin};
pub use torch_text::torch_text;
