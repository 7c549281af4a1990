//! Tests of the analyses, on drawn programs and on recordings.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests"
)]

mod averages;
mod by_hand;
mod findings;
mod growth;
mod hta;
mod random;
mod support;
