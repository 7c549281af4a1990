//! Analyses of drawn programs.
#![allow(clippy::expect_used, clippy::panic, reason = "tests")]

mod by_hand;
mod hta;
mod random;
mod support;
