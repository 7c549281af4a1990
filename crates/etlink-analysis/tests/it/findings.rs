//! Faults planted into programs: the first finding must name the fault, with the true gain.
//!
//! The truth is the program built without the fault and run again by the machine of [`program`].
//! The prediction comes only from the trace of the program with the fault. `cargo test -p
//! etlink-analysis -- --nocapture` prints the table.

mod draw;
mod faults;
mod growth;
mod launches;
mod planted;
mod program;
mod questions;
mod random;
mod rank_questions;
mod reasons;
mod recorded;
mod rerun;
mod retimed;
mod scope;
mod shifted;
