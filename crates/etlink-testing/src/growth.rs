//! Checks that work grows no faster than its input.

use std::time::{Duration, Instant};

/// Size of the second input relative to the first.
const TIMES: usize = 4;
/// Maximum growth of the time. Quadratic work takes 16 times as long, linear work 4 times plus
/// noise of the machine.
const MOST: u32 = 8;
/// Number of comparisons. Other work on the machine makes a single comparison unreliable; a
/// quadratic step fails all.
const ATTEMPTS: usize = 8;

/// Measures `work` on an input of `events` events and on one four times larger. Returns true if the
/// time grew about as much. Prints the measurements.
#[allow(
    clippy::print_stderr,
    reason = "a test that fails shows what it measured"
)]
pub fn grows_evenly<I>(
    name: &str,
    events: usize,
    input: impl Fn(usize) -> I,
    work: impl Fn(&I),
) -> bool {
    let inputs = (input(events), input(TIMES * events));
    // noise of the machine only adds time, and meets long work more often than short work
    let mut large = Duration::MAX;
    (0..ATTEMPTS).any(|_| {
        // twice: a small time that is too long would excuse a large one
        let small = work_time(&work, &inputs.0).min(work_time(&work, &inputs.0));
        large = large.min(work_time(&work, &inputs.1));
        eprintln!("{name}: {small:?}, {large:?}");
        large <= small * MOST
    })
}

#[allow(clippy::disallowed_methods, reason = "a test that takes time")]
fn work_time<I>(work: impl Fn(&I), input: &I) -> Duration {
    let begun = Instant::now();
    work(input);
    begun.elapsed()
}
