//! The command as users type it, on recorded and on broken input.
#![allow(clippy::disallowed_methods, clippy::expect_used, clippy::panic, reason = "tests")]

mod bad_input;
mod link;
mod merge;
mod tool;
mod two_traces;
