//! Thresholds for reporting findings of a run.

/// Maximum number of findings reported: people fix one thing after another.
pub(crate) const MOST_FINDINGS: usize = 7;

/// Smallest gain worth a sentence, as a share of the window: replays are no more accurate, and runs
/// of one program differ by as much.
pub(crate) const LEAST_GAIN: f64 = 0.02;

/// Smallest gain of a kernel that is named although it gains less than a finding, as a share of the
/// window: below it, a faster kernel changes nothing.
pub(crate) const LEAST_KERNEL_GAIN: f64 = 0.005;

/// Longest time, in ns, that the host takes to receive a batch that its loader's workers have ready.
pub(crate) const READY_BATCH_NS: i64 = 1_000_000;

/// Share of the ranks' windows above which communication is reported even if its gain is small.
pub(crate) const MUCH_COMMUNICATION: f64 = 0.2;

/// Share of the window above which a cause is named in a run without findings.
pub(crate) const LONG_CAUSE: f64 = 0.2;

/// Share of common time above which only one of two causes is reported.
pub(crate) const SAME_TIME: f64 = 0.6;

/// Share of a general cause's gain above which a specific cause is reported instead.
pub(crate) const EXPLAINS: f64 = 0.7;

/// Minimum ratio of the joint gain to the sum of gains, and of the sum to the joint gain, at which
/// the gains count as adding up.
pub(crate) const ADDS_UP: f64 = 0.9;

/// Maximum number of causes replayed per kind, the longest first.
pub(crate) const MOST_OF_A_KIND: usize = 8;

/// Share of the time without computation and copies above which a device's idling is reported, even
/// if the cause is unknown.
pub(crate) const MUCH_IDLE: f64 = 0.2;

/// Share of the steps without ops above which a host is reported.
pub(crate) const MUCH_BETWEEN_OPS: f64 = 0.5;

/// Share of all kernel time above which a kernel is named, with the gain from a faster one.
pub(crate) const DOMINANT_SHARE: f64 = 0.2;

/// Size limit of small messages, in bytes, whose time hardly depends on the size: a network of 10
/// GB/s moves them in less than 7 us.
pub(crate) const SMALL_MESSAGE: u64 = 65_536;

/// Longest host work between two launches that counts as launching, in ns; longer work is data
/// loading or logging. An op takes 5 to 50 us from Python to its launch.
pub(crate) const LONGEST_LAUNCH_NS: i64 = 200_000;

/// Factor on the 75th percentile of a thread's launch times that gives the limit on slow hosts:
/// there, or if stacks and shapes are recorded, every op takes 100 to 500 us.
pub(crate) const SLOW_FACTOR: i64 = 3;

/// Minimum number of times between launches that show what is usual on a thread. Among fewer, work
/// of the host would raise the limit until it counts as launching.
pub(crate) const LEAST_USUAL_LAUNCHES: usize = 20;

/// Upper bound on the time for a launch, in ns, even on slow hosts.
pub(crate) const SLOWEST_LAUNCH_NS: i64 = 1_000_000;
