//! Checks that four times the events take about four times as long, whatever kind of event is
//! repeated.

use etlink_analysis::findings::{RankPart, rank_causes, run_findings};
use etlink_analysis::{KernelRules, Options, RankAnalysis, analyze};
use etlink_link::ranks::RunSteps;
use etlink_link::{LinkOptions, LinkedTrace, link};
use etlink_model::NodeIdx;
use etlink_replay::ReplayGraph;
use etlink_testing::{Oddity, grows_evenly};
use std::hint::black_box;

/// Number of events of the smaller input.
const EVENTS: usize = 5_000;

/// Inputs of the search for causes. The tests of other crates measure how they are made.
struct Case {
    trace: LinkedTrace,
    analysis: RankAnalysis,
    graph: ReplayGraph,
}

#[test]
fn time_grows_with_the_events_alone() {
    let mut uneven = vec![];
    let rules = KernelRules::built_in().expect("valid");
    for &oddity in Oddity::ALL {
        let input = |events| draw_case(oddity, events, &rules);
        if !grows_evenly(oddity.name(), EVENTS, input, |case| {
            find_causes(case, &rules);
        }) {
            uneven.push(oddity);
        }
    }
    assert!(
        uneven.is_empty(),
        "grow faster than their events: {uneven:?}"
    );
}

fn find_causes(case: &Case, rules: &KernelRules) {
    let part = RankPart {
        first: NodeIdx(0),
        causes: rank_causes(&case.trace, rules, &case.analysis),
    };
    black_box(run_findings(&case.graph, vec![part], &RunSteps::default()));
}

fn draw_case(oddity: Oddity, events: usize, rules: &KernelRules) -> Case {
    let traces = oddity.draw_rank(events, 0);
    let device = etlink_formats::kineto::read(&traces.device[..], Default::default());
    let device = device.expect("a device trace");
    let trace = link(None, device, LinkOptions::default()).expect("links");
    Case {
        analysis: analyze(&trace, rules, &Options::default()),
        graph: etlink_replay::graph_from_trace(&trace).expect("a graph"),
        trace,
    }
}
