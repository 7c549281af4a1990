//! Whether work grows no faster than its input.

use std::time::{Duration, Instant};

/// How much larger the second input is.
const TIMES: usize = 4;
/// What is quadratic takes 16 times as long; what is linear 4 times, plus what the machine does
/// besides.
const MOST: u32 = 8;
/// Other work on the machine makes a single comparison unsure, a quadratic step fails all.
const ATTEMPTS: usize = 6;

/// Measures `work` on an input of so many events and on one that is four times larger. Whether the
/// time grew about as much. Prints what it measured.
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
    let (small, large) = (input(events), input(TIMES * events));
    (0..ATTEMPTS).any(|_| {
        let small = shortest_time(&work, &small);
        let large = shortest_time(&work, &large);
        eprintln!("{name}: {small:?}, {large:?}");
        large <= small * MOST
    })
}

/// The shorter of two measurements: what else the machine does only ever adds.
fn shortest_time<I>(work: impl Fn(&I), input: &I) -> Duration {
    work_time(&work, input).min(work_time(&work, input))
}

#[allow(clippy::disallowed_methods, reason = "a test that takes time")]
fn work_time<I>(work: impl Fn(&I), input: &I) -> Duration {
    let begun = Instant::now();
    work(input);
    begun.elapsed()
}
