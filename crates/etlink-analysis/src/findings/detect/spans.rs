//! Spans of threads that are removed together.

use crate::findings::host_span::HostSpan;
use crate::findings::view::RankView;
use etlink_replay::GraphEdits;

/// Merges overlapping spans, and sorts them by thread and time.
pub(crate) fn merge_spans(spans: &mut Vec<HostSpan>) {
    spans.sort_unstable();
    spans.dedup_by(|span, before| {
        let overlaps = span.thread == before.thread && span.start <= before.end;
        if overlaps {
            before.end = before.end.max(span.end);
        }
        overlaps
    });
}

/// Removes the work of threads in these spans, each slice once.
// An op that launches thousands of rows is the span of each of them.
pub(crate) fn remove_spans(view: &RankView<'_>, spans: &mut Vec<HostSpan>, edits: &mut GraphEdits) {
    merge_spans(spans);
    for span in spans {
        view.remove_span(*span, edits);
    }
}
