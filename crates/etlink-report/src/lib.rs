//! Shows linked traces to people.
//!
//! ```text
//! LinkedTrace, critical path ──────────── perfetto::write_trace ─> a trace for ui.perfetto.dev:
//!                                                            Perfetto's protobuf or Chrome JSON
//! … of each rank, releases, clock offsets ─ perfetto::write_rank ─> all ranks in one
//! figures of all ranks, timelines ─────────── page::render_page ──> one page of HTML
//! ```
//! Pure: the caller opens files and runs the graph.

pub mod page;
pub mod perfetto;
mod track_names;
