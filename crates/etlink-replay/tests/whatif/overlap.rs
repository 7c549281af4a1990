//! Kernels that start before their predecessor on the stream ends: programmatic dependent launch.

use super::makespans;
use etlink_testing::{DeviceQueue, TraceBuilder};

const US: i64 = 1_000;

/// Draws kernels `a` (50 us), `b` and `c` (20 us each) twenty times, all launched ahead of time.
/// `b` and `c` start `overlap` us before their predecessor ends.
fn overlapping(overlap: i64) -> TraceBuilder {
    let mut draw = TraceBuilder::default();
    let main = draw.thread();
    let (mut called, mut ended) = (0, 1_000 * US);
    for _ in 0..20 {
        for (name, us, early) in [("a", 50, -1), ("b", 20, overlap), ("c", 20, overlap)] {
            let start = ended - early * US;
            ended = start + us * US;
            let launch = (called, called + 3 * US);
            draw.launch(main, launch, DeviceQueue::stream(7), name, (start, ended));
            called += 4 * US;
        }
    }
    let sync = draw.next_correlation();
    draw.call(
        main,
        "cudaDeviceSynchronize",
        (called, ended + 3 * US),
        sync,
    );
    draw
}

#[test]
fn what_overlaps_moves_with_the_kernel_ahead() {
    for overlap in [0, 1, 2, 5, 10, 15, 19, 20] {
        let draw = overlapping(overlap);
        // A ten-fold `a` delays everything after it.
        let [before, longer] = makespans(&draw, "a=10");
        assert_eq!(longer - before, 20 * 450 * US, "{overlap}");
        // A short `a` lets its follower start no earlier than `a` itself: of the 45 us saved, 5 us
        // and the rest of the overlap remain.
        let [before, shorter] = makespans(&draw, "a=0.1");
        let saved = 45 - (overlap - 5).max(0);
        let error = before - shorter - 20 * saved * US;
        // Of kernels that end at once, it is unknown which the next one waits for 1 us more.
        let unknown = if overlap == 20 { 20 * US } else { 0 };
        assert!(error.abs() <= unknown, "{overlap}: {error}");
    }
}
