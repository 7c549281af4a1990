//! Compares exports of Nsight Systems with Kineto traces of the same runs.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod documented;
mod producers;
mod same_graph;
mod sums;
mod support;
