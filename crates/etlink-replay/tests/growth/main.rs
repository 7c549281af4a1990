//! Asserts that four times the events take about four times as long, whatever the input is made of.
#![allow(clippy::expect_used, reason = "a test")]

mod cases;

use cases::Case;
use etlink_testing::{Oddity, grows_evenly};

/// Number of events of the smaller input.
const EVENTS: usize = 6_000;

#[test]
fn time_grows_with_the_events_alone() {
    let mut uneven = vec![];
    for &oddity in Oddity::ALL {
        let input = |events| Case::new(oddity, events);
        if !grows_evenly(oddity.name(), EVENTS, input, Case::run) {
            uneven.push(oddity);
        }
    }
    assert!(
        uneven.is_empty(),
        "grow faster than their events: {uneven:?}"
    );
}

/// Each of these once had a quadratic search through all groups or annotations.
#[test]
fn time_of_summaries_grows_with_the_events_alone() {
    for oddity in [Oddity::ListedGroups, Oddity::NumberedAnnotations] {
        let input = |events| Case::linked(oddity, events);
        // a summary is short: use more events to show the growth
        let is_even = grows_evenly(oddity.name(), 4 * EVENTS, input, Case::run);
        assert!(is_even, "{}: grows faster than its events", oddity.name());
    }
}
