//! From when on something is told of a run.

/// Most findings that are told: people fix one thing after the other.
pub(crate) const MOST_FINDINGS: usize = 7;

/// A gain of less than this share of the window is not worth a sentence: replays are not truer than
/// that, and runs of one program differ by as much.
pub(crate) const LEAST_GAIN: f64 = 0.02;

/// Communication that takes this share of the ranks' windows needs a word, be its gain small.
pub(crate) const MUCH_COMMUNICATION: f64 = 0.2;

/// Without findings a cause that lasts for this share of the window is named.
pub(crate) const LONG_CAUSE: f64 = 0.2;

/// Of two causes with more than this share of their time in common, one is told.
pub(crate) const SAME_TIME: f64 = 0.6;

/// A cause that explains this share of a general one's gain is told in its place.
pub(crate) const EXPLAINS: f64 = 0.7;

/// Findings whose joint gain is at least this share of the sum of theirs add up, and so do those of
/// which it is at most the inverse.
pub(crate) const ADDS_UP: f64 = 0.9;

/// Causes of one kind that are replayed, the longest.
pub(crate) const MOST_OF_A_KIND: usize = 8;

/// A device that neither computes nor copies for more than this share of the time is worth a word, be
/// the cause unknown.
pub(crate) const MUCH_IDLE: f64 = 0.2;

/// A host on which no op runs for more than this share of the steps is worth a word.
pub(crate) const MUCH_BETWEEN_OPS: f64 = 0.5;

/// A kernel that takes this share of all kernels' time is named, with what a faster one gains.
pub(crate) const DOMINANT_SHARE: f64 = 0.2;

/// A message of fewer bytes takes what a message takes, and hardly more for its bytes: a network of
/// 10 GB/s moves them in less than 7 us.
pub(crate) const SMALL_MESSAGE: u64 = 65_536;

/// Work of the host between two launches that takes longer than this, ns, is no part of launching:
/// data, logging. An op takes 5 to 50 us from Python to its launch.
pub(crate) const LONGEST_LAUNCH_NS: i64 = 200_000;

/// On a slow host, or one that records stacks and shapes, every op takes 100 to 500 us. There the
/// limit is this many times what three in four launches of the thread take.
pub(crate) const SLOW_FACTOR: i64 = 3;

/// Fewer launches of a thread do not show what is usual.
pub(crate) const LEAST_LAUNCHES: usize = 20;

/// No host takes longer for a launch, ns.
pub(crate) const SLOWEST_LAUNCH_NS: i64 = 1_000_000;
