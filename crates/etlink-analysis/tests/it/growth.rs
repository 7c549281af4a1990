//! Checks that four times the events take about four times as long, whatever kind of event is
//! frequent.

use etlink_analysis::{KernelRules, Options, analyze};
use etlink_link::{LinkOptions, LinkedTrace, link};
use etlink_testing::{Oddity, grows_evenly};
use std::hint::black_box;

/// Number of events in the smaller input.
const EVENTS: usize = 5_000;

#[test]
fn time_grows_with_the_events_alone() {
    let mut uneven = vec![];
    let rules = KernelRules::built_in().expect("valid");
    for &oddity in Oddity::ALL {
        let input = |events| linked_trace(oddity, events);
        let is_even = grows_evenly(oddity.name(), EVENTS, input, |trace| {
            black_box(analyze(trace, &rules, &Options::default()));
        });
        if !is_even {
            uneven.push(oddity);
        }
    }
    assert!(
        uneven.is_empty(),
        "grow faster than their events: {uneven:?}"
    );
}

fn linked_trace(oddity: Oddity, events: usize) -> LinkedTrace {
    let traces = oddity.draw_rank(events, 0);
    let device = etlink_formats::kineto::read(&traces.device[..], Default::default());
    let device = device.expect("a device trace");
    link(None, device, LinkOptions::default()).expect("links")
}
