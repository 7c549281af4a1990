//! A sleeping thread takes some time to wake, however quick the program is.

use super::makespans;
use etlink_testing::TraceBuilder;

/// Time from a signal to the first work of the thread that slept for it, in ns.
const WAKE: i64 = 12_000;

/// Draws steps of a forward op, a backward on another thread, and an optimizer. Each host op takes
/// `factor` times as long. Returns the trace and its length.
pub(super) fn steps(factor: i64) -> (TraceBuilder, i64) {
    let mut draw = TraceBuilder::default();
    let (main, worker) = (draw.thread(), draw.thread());
    let mut now = 0;
    for number in 0..20 {
        let mut work = |thread, name, us: i64, begin: i64| {
            let end = begin + factor * us * 1_000;
            (draw.op(thread, name, begin, end), end)
        };
        let (forward, end) = work(main, "aten::mm", 40, now);
        let begun = end + factor * 3_000 + WAKE;
        let engine = "autograd::engine::evaluate_function: MmBackward0";
        work(worker, engine, 60, begun);
        let (backward, end) = work(worker, "MmBackward0", 60, begun);
        let resumed = end + WAKE + factor * 3_000;
        (_, now) = work(main, "optimizer", 30, resumed);
        now += factor * 1_000;
        draw.sequence(forward, number, 0);
        draw.sequence(backward, number, 1);
    }
    (draw, now - factor * 1_000)
}

#[test]
fn waking_does_not_scale_with_the_host() {
    let ((draw, before), (_, truth)) = (steps(1), steps(4));
    let [plain, predicted] = makespans(&draw, "kind=host 4");
    assert_eq!(plain, before);
    let error = (predicted - truth).abs() as f64 / truth as f64;
    assert!(error <= 0.025, "{before} {truth} {predicted}: {error}");
}
