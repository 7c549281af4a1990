//! The command as users type it, on recorded and on broken input.

mod bad_input;
mod link;
mod merge;
mod tool;
mod two_traces;
