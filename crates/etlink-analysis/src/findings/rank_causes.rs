//! Looks for all kinds of causes in the trace of one rank.

use crate::findings::candidate::{ProgramKind, RankCauses};
use crate::findings::detect::communication::host_communication_ns;
use crate::findings::kinds::KINDS;
use crate::findings::rank_work::work_by_name;
use crate::findings::unknown_time::UnknownTime;
use crate::findings::view::RankView;
use crate::{ClassifiedRows, KernelRules, RankAnalysis};
use etlink_link::LinkedTrace;
use std::collections::BTreeMap;

/// Maximum number of candidates replayed per kind, the longest first.
const MOST_OF_KIND: usize = 6;

/// Finds all causes in a rank's trace. `analysis` must be of the same trace. O(n log n).
pub fn rank_causes(
    trace: &LinkedTrace,
    rules: &KernelRules,
    analysis: &RankAnalysis,
) -> RankCauses {
    let view = RankView::new(trace, ClassifiedRows::new(trace, rules), analysis);
    RankCauses {
        work: work_by_name(&view),
        ..causes_alone(&view)
    }
}

fn causes_alone(view: &RankView<'_>) -> RankCauses {
    let mut candidates = vec![];
    let unknown = UnknownTime::of_trace(view.trace);
    for detect in KINDS.iter().filter_map(|rule| rule.detect) {
        let mut of_kind = detect(view);
        for candidate in &mut of_kind {
            unknown.take_out_of(candidate);
        }
        // A cause without nodes cannot gain anything.
        of_kind.retain(|candidate| !candidate.edits.is_empty());
        // A stable sort: ties keep their order.
        of_kind.sort_by_key(|candidate| std::cmp::Reverse(candidate.evidence.time_ns));
        of_kind.truncate(MOST_OF_KIND);
        candidates.append(&mut of_kind);
    }
    let report = &view.trace.report;
    let (rank, first_ns) = (report.rank, report.window.start_ns);
    let is_slowed = report.overhead.is_some_and(|overhead| !overhead.is_removed);
    for one in &mut candidates {
        one.evidence.host_slowed = is_slowed && one.kind.is_of_host_pace();
        if one.evidence.start_ns.is_some() {
            one.evidence.set_rank(rank, first_ns);
        }
    }
    let mut window = view.window;
    if !window.has_device {
        window.exposed_communication_ns = host_communication_ns(view);
    }
    RankCauses {
        rank,
        first_ns,
        program: ProgramKind::of_trace(view.trace),
        window,
        window_ends: view.window_ends(),
        candidates,
        work: BTreeMap::new(),
    }
}
