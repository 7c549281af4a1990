//! Tests of readers and writers against recordings, drawn traces and each other.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod host_whole_trace;
mod host_written;
mod kineto;
#[cfg(feature = "nsys")]
mod nsys;
