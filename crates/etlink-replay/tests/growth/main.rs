//! Four times the events take about four times as long, whatever there is many of.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test that takes time"
)]

mod cases;

use cases::{Case, shortest};
use etlink_testing::Oddity;

/// Events of the smaller input, and how much larger the other is.
const EVENTS: usize = 6_000;
const TIMES: usize = 4;
/// What is quadratic takes 16 times as long; what is linear 4 times, plus what the machine does
/// besides.
const MOST: u32 = 10;
/// Other work on the machine makes a single comparison unsure, a quadratic step fails all.
const ATTEMPTS: usize = 6;

#[test]
fn time_grows_with_the_events_alone() {
    let mut failed = vec![];
    for oddity in Oddity::ALL {
        let (small, large) = (Case::new(oddity, EVENTS), Case::new(oddity, TIMES * EVENTS));
        let grows_evenly = |_: usize| {
            let small = shortest(&small, 2);
            let large = shortest(&large, 2);
            eprintln!("{}: {small:?}, {large:?}", oddity.name());
            large <= small * MOST
        };
        if !(0..ATTEMPTS).any(grows_evenly) {
            failed.push(oddity);
        }
    }
    assert!(
        failed.is_empty(),
        "grow faster than their events: {failed:?}"
    );
}
