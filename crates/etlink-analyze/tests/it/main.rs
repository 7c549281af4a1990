//! Tests of the analyses, on drawn programs and on recordings.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod averages;
mod by_hand;
mod growth;
mod random;
mod support;
