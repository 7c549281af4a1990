//! Code shared by the developer commands and the benchmarks.
#![allow(
    clippy::disallowed_methods,
    reason = "a tool that reads and writes files"
)]

pub mod generate;
