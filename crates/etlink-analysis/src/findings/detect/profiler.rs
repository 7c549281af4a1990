//! Detects the overhead of the recording itself.

use crate::findings::candidate::{CauseCandidate, CauseEvidence};
use crate::findings::covered_time::CoveredTime;
use crate::findings::kind::CauseKind;
use crate::findings::text::sum_ns;
use crate::findings::view::RankView;
use crate::median_ns;
use etlink_link::NodeKind;
use etlink_model::{AuxiliaryKind, NodeIdx};
use etlink_replay::GraphEdits;
use std::collections::BTreeMap;

/// Finds the profiler's `overhead` rows, within the calls that they ran in.
pub(crate) fn profiler_overhead(view: &RankView<'_>) -> Vec<CauseCandidate> {
    let events = &view.trace.device.auxiliary;
    let mut spans = vec![];
    let mut times = vec![];
    let mut by_name: BTreeMap<&str, i64> = BTreeMap::new();
    let mut longest = None;
    for event in 0..events.kind.len() {
        let start = events.start[event].0;
        if events.kind[event] != AuxiliaryKind::Overhead
            || !(view.host_span.0..view.host_span.1).contains(&start)
        {
            continue;
        }
        let took = events.duration[event].0;
        times.push(took);
        let name = view.trace.device_name(events.name[event]);
        let sum = by_name.entry(name).or_default();
        *sum = sum.saturating_add(took);
        longest = longest.max(Some((took, start)));
        spans.push((start, start.saturating_add(took)));
    }
    let edits = take_from_calls(view, &CoveredTime::new(spans));
    let most = by_name.iter().max_by_key(|(_, ns)| **ns);
    let subject = most.map_or("", |(name, _)| name);
    let evidence = CauseEvidence {
        count: times.len() as u64,
        time_ns: sum_ns(times.iter().copied()),
        typical_ns: median_ns(&mut times),
        start_ns: longest.map(|(_, start)| start),
        end_ns: longest.map(|(took, start)| start.saturating_add(took)),
        ..CauseEvidence::default()
    };
    vec![view.candidate(CauseKind::ProfilerOverhead, subject, edits, evidence)]
}

/// Takes the overhead out of calls. The rows do not show the profiler's thread, but CUPTI works
/// within the program's calls, so it is a thread that is in a call.
fn take_from_calls(view: &RankView<'_>, covered: &CoveredTime) -> GraphEdits {
    let mut edits = GraphEdits::default();
    let threads = view.of_thread.iter().zip(&view.launched);
    for (nodes, _) in threads.filter(|(_, launched)| !launched.is_empty()) {
        let is_call = |node: &&NodeIdx| view.trace.nodes.kind[node.index()] == NodeKind::Runtime;
        for node in nodes.iter().filter(is_call) {
            let (start, end) = view.node_span(*node);
            let common = covered.between(start, end);
            if common > 0 {
                let length = end.saturating_sub(start).max(1);
                let rest = length.saturating_sub(common).max(0);
                edits.scaled.push((*node, rest as f64 / length as f64));
            }
        }
    }
    edits
}
