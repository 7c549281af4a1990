//! Shows linked traces to people.
//!
//! ```text
//! LinkedTrace + steps of the critical path ─ perfetto::write ─> Chrome JSON for ui.perfetto.dev
//! ```
//! Pure: the caller opens files and runs the graph.

pub mod perfetto;
