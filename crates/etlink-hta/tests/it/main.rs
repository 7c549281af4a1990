//! Tests HTA's figures of drawn programs.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod by_hand;
mod details;
mod drawn;
mod odd_times;
mod support;
