//! Four times the events take about four times as long, whatever there is many of.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stderr,
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
const MOST: u32 = 8;
/// Other work on the machine makes a single comparison unsure, a quadratic step fails all.
const ATTEMPTS: usize = 6;

#[test]
fn time_grows_with_the_events_alone() {
    let failed: Vec<Oddity> = Oddity::ALL
        .into_iter()
        .filter(|oddity| !grows_evenly(|events| Case::new(*oddity, events), oddity.name()))
        .collect();
    assert!(
        failed.is_empty(),
        "grow faster than their events: {failed:?}"
    );
}

/// Each of these once had a search through all groups, or all annotations, for each of them.
#[test]
fn time_of_summaries_grows_with_the_events_alone() {
    for oddity in [Oddity::ListedGroups, Oddity::NumberedAnnotations] {
        // a summary is short: more events, so that their number shows
        let is_even = grows_evenly(|events| Case::linked(oddity, 4 * events), oddity.name());
        assert!(is_even, "{}: grows faster than its events", oddity.name());
    }
}

/// Measures the input of [`EVENTS`] and the one that is larger by [`TIMES`].
fn grows_evenly(case: impl Fn(usize) -> Case, name: &str) -> bool {
    let (small, large) = (case(EVENTS), case(TIMES * EVENTS));
    (0..ATTEMPTS).any(|_| {
        let small = shortest(&small, 2);
        let large = shortest(&large, 2);
        eprintln!("{name}: {small:?}, {large:?}");
        large <= small * MOST
    })
}
