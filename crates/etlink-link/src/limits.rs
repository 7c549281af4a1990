//! Tolerances of the linker, with their evidence.
//!
//! A limit separates what one rule explains from what needs another cause. Measurements were taken
//! on the public traces of `docs/src/reference/evidence.md`; the figure is the share of cases on
//! the near side.

use etlink_model::{DurationNs, TimeNs};

/// Maximum difference between host and device clocks: a row may start this long before its call and
/// still be launched by it.
///
/// CUPTI converts the device's clock to the host's, which leaves an error of one to two
/// microseconds. Kineto adds none of its own (`convertCuptiTimestamp` in `CuptiTimestamp.h`).
pub const CLOCK_TOLERANCE: DurationNs = DurationNs(2_000);

/// Number of launches before and after a row in the order of its stream that are compared with it.
/// Calls overlap only across threads that launch to one stream, which are few.
pub(crate) const MOST_OVERLAPPING: usize = 64;

/// Maximum time a row may start before the call of its id. Beyond it, the row belongs to another
/// call with that id. Correlation ids are unique within a process, so an earlier start is a clock
/// error.
///
/// ROCm traces have been seen 0.3 ms off. None of 30,000 launched rows in 22 public traces starts
/// before its call.
pub(crate) const EARLY_START: DurationNs = DurationNs(1_000_000);

/// One in this many bounds on a clock may be wrong: an id was used twice, or a call did not wait
/// after all. In 16 public traces, up to 0.5 % of the rows started before their call.
pub(crate) const CLOCK_OUTLIERS: u64 = 100;

/// Maximum harm of a clock correction: one in this many. A clock is not set ahead to fit calls that
/// waited if more rows than that would start before their launch. It is not set back to fit
/// launches if more calls than that would return too early.
pub(crate) const CLOCK_PRICE: u64 = 10;

/// Minimum number of bounds to judge a clock, for bounds that a wrong guess or a row of another
/// call may cause.
pub(crate) const LEAST_BOUNDS: usize = 3;

/// Minimum number of launches, or of calls that waited, to estimate a drift.
pub(crate) const LEAST_FOR_CLOCK_DRIFT: usize = 8;

/// Maximum time from the start of a launch call to its row's start, unless the row waits for
/// something else as well.
///
/// Measured: 99 % start within 15 to 30 us. Calls that load modules or copy to staging memory take
/// longer, and then the row waits for the call's end.
pub const LAUNCH_LATENCY: DurationNs = DurationNs(100_000);

/// Maximum time from the end of a cause to the start of its effect, unless the effect waits for
/// something else as well.
///
/// Measured: 99 % follow within 3 to 20 us, over rows of one stream, event waits and synchronising
/// calls.
pub const WAIT_LATENCY: DurationNs = DurationNs(30_000);

/// Shortest copy of pageable memory whose call waits for it because it stages the data.
///
/// A copy of up to 64 KiB is staged at once and returns; it takes less than 10 us. Three copies of
/// 5.3 ms on an H200 end 11 us after their calls.
pub(crate) const LEAST_STAGED: DurationNs = DurationNs(100_000);

/// Maximum time from a row's start to the start of a row on another queue that waited for it, if
/// nothing else explains the second row.
///
/// Tighter than [`WAIT_LATENCY`], since no call states that the row waits at all.
pub(crate) const ALONE_LATENCY: DurationNs = DurationNs(10_000);

/// Maximum time from the end of handed-over work until the waiting thread continues.
///
/// Measured: 8 to 50 us in recordings of DDP on CPUs with more threads than cores.
pub(crate) const WAKE_LATENCY: DurationNs = DurationNs(100_000);

/// Usual time for a sleeping thread to continue after it is woken; this much of the time after a
/// wait is no work.
///
/// Waking through a futex takes 5 to 50 us on Linux (`futex(2)`, idle states of the core included).
/// A trace does not separate it from the thread's next activity, so the low end is used.
pub const USUAL_WAKE: DurationNs = DurationNs(10_000);

/// Maximum rounding at both ends of a range or row: PyTorch before 2.4 writes whole microseconds.
///
/// Kineto divided start and length by 1000 separately (`nsToUs` in `CuptiActivity.h`), until
/// pytorch/kineto#907.
pub(crate) const ROUNDING: DurationNs = DurationNs(1_000);

/// Maximum overlap of a row with its predecessor on the stream for the row to follow it, even if no
/// launch shows their order.
///
/// Kernels with programmatic dependent launch overlap by up to 3.7 us in a trace of a B200 (74 of
/// 929 rows).
pub(crate) const PROGRAMMATIC_OVERLAP: DurationNs = DurationNs(4_000);

/// Minimum usual duration of a name's rows for a row of length 0 to be damage: rounding takes less
/// than a microsecond at each end.
pub(crate) const NO_ROUNDING: DurationNs = DurationNs(5_000);

/// If one in this many kernels takes no time, those kernels are damage.
///
/// In the public traces of A100 to B200 and MI210 to MI300, no kernel takes less than 1 us.
pub(crate) const NO_LENGTH_PART: u64 = 10;

/// Minimum number of kernels without length that rounding does not explain.
pub(crate) const LEAST_NO_LENGTH: u64 = 16;

/// Minimum assumed length of a recording in the search for rows outside it.
///
/// In a recording of one graph launch of 2 ms, the rows begin 8 ms after its calls.
pub(crate) const RECORDING_MARGIN: DurationNs = DurationNs(100_000_000);

/// Factor by which a row that covers others of its stream must exceed the usual duration of similar
/// rows to count as too long.
///
/// In 33 public traces of A100, H100, B200, V100 and MI210 to MI300, no row covers another of its
/// stream.
pub(crate) const LONGER_THAN_LIKE: i64 = 10;

/// Factor by which a row after which nothing runs must exceed that duration to count as too long.
pub(crate) const LONGER_THAN_RECORDING: i64 = 100;

/// Minimum number of rows that a row must cover on its stream to be too long, whatever similar
/// rows take.
pub(crate) const MANY_COVERED: usize = 3;

/// Minimum number of rows that begin inside a row for it to be too long: programmatic dependent
/// launches overlap their neighbours.
pub(crate) const MANY_BEGUN: usize = 4;

/// Maximum number of rows starting before a row's end that are searched for one that it covers.
pub(crate) const MAX_COVERED_LOOKUPS: usize = 64;

/// Maximum distance between launches whose rows share an id, in launches of their thread.
///
/// kineto#1416 shows pairs of consecutive launches.
pub(crate) const SHARED_REACH: usize = 64;

/// Maximum share of launches without a row, one in this many, for device activity to be reported:
/// idle time would be off by as much.
///
/// In 33 public traces, all CUDA and HIP launches have a row, except memsets.
pub const LOST_PART: i64 = 20;

/// Maximum number of rows between two losses of one part. If one in 20 launches loses its row at
/// random, one gap in 170 is longer.
pub(crate) const MAX_BETWEEN_LOST: i64 = 100;

/// Minimum number of lost rows that makes part of a recording unknown.
pub(crate) const LEAST_LOST: i64 = 8;

/// Fewer lost rows suffice if they are at least one in this many of all rows.
pub(crate) const LOST_OF_ALL: i64 = 100;

/// Minimum number of lost rows: a single one is no loss of the recorder, as a launch may have
/// failed.
pub(crate) const FEW_LOST: i64 = 2;

/// Minimum number of names of ops that show lost calls: ops of a single name, such as the steps of an
/// optimizer's counters, may work on the host in one place alone.
pub(crate) const LEAST_SILENT_NAMES: usize = 3;

/// Maximum number of ranges climbed to find the parent of an op that the innermost range does not
/// enclose. Bounds the sweep.
pub(crate) const MAX_CLIMB: usize = 64;

/// Maximum number of rows with a fitting end that are tried as the cause of a call's wait.
pub(crate) const MAX_ROWS_OF_CALL: usize = 64;

/// Maximum number of queues awaited by a synchronisation that does not name its queue.
pub(crate) const MAX_QUEUES_OF_CALL: usize = 64;

/// Maximum number of rows with a fitting end that are tried as the cause of a row's wait for
/// another queue: more rows end at one time on queues than on threads.
pub(crate) const MAX_ROWS_OF_QUEUE: usize = 256;

/// Maximum number of groups with a pending collective that are tried for a worker thread without a
/// group.
pub(crate) const MAX_GROUPS_TRIED: usize = 64;

/// Minimum share of matched ops of the smaller trace for two traces to be of one program.
pub(crate) const SAME_PROGRAM_SHARE: f64 = 0.5;

/// Minimum density of matched ops. Programs share names, but aligned by order, the ops of one
/// program leave few holes on either side; below this share of a thread's range they are of
/// different programs.
pub(crate) const DENSE_SHARE: f64 = 0.8;

/// Maximum number of steps for pairing threads by name, beyond which candidates replace all pairs.
pub(crate) const MAX_PAIRING_STEPS: usize = 1 << 24;

/// Maximum number of look-ups for mapping processes to devices by vote; beyond it, an even sample
/// of the rows votes.
pub(crate) const MAX_VOTES: usize = 1 << 22;

/// Maximum distance between traces of one run: host clocks differ by less, and so do the starts of
/// recordings begun one after the other.
pub(crate) const RUNS_APART: DurationNs = DurationNs(60_000_000_000);

/// Maximum distance between recordings of one run on one machine: its processes share a clock, and
/// read it within less time.
pub(crate) const PROCESSES_APART: DurationNs = DurationNs(1_000_000);

/// Maximum number of ranks in a group; more are taken for damage.
pub(crate) const MAX_RANKS: u64 = 1 << 20;

/// Maximum time between the ends of a collective on its ranks; alternatively, a fiftieth of its
/// length.
///
/// In 64 collectives of eight ranks on one machine, the ends are within 7 us. The last hop of a
/// ring across machines takes longer.
pub(crate) const ENDS_APART: DurationNs = DurationNs(20_000);

/// Minimum number of kernels without records for joining ranks of one machine by kernel ends.
pub(crate) const LEAST_INFERRED_OF_MACHINE: usize = 3;

/// Minimum number of kernels without records if a clock offset must be found too, which uses up one
/// of the ends.
pub(crate) const LEAST_INFERRED: usize = 5;

/// Maximum clock difference between machines of a job: kernels whose ends coincide only with a
/// larger offset are not joined.
///
/// `chrony` and `ntpd` keep clocks within milliseconds, and step them when they are 128 ms off.
pub(crate) const MAX_CLOCKS_APART: DurationNs = DurationNs(1_000_000_000);

/// Maximum drift between clocks of computers, parts per billion: one in a thousand. Quartz is
/// within 100 ppm; a time daemon slews at most 500 ppm (`adjtimex`).
pub(crate) const MAX_DRIFT_PPB: i64 = 1_000_000;

/// Minimum share of device time launched in numbered ranges for the ranges to be steps; for traces
/// without device rows, the share of op time.
///
/// Must be more than half, since set-up and work after the loop may be recorded as well. The 12
/// layers of a pass whose head takes 77 % hold 23 %.
pub(crate) const STEP_WORK_SHARE: f64 = 0.5;

/// Minimum share of the time from the first such range's start to the last one's end that the
/// ranges must fill.
///
/// A loop that waits for its input between steps still qualifies. `FSDP::backward_prefetch for N`
/// fills 15 % in the recorded pairs; layers of one kind between others fill less.
pub(crate) const STEP_FILL_SHARE: f64 = 0.25;

/// Minimum number of collectives for useful medians of their first and last third.
pub(crate) const LEAST_FOR_DRIFT: usize = 18;

/// Minimum effect of a drift within the window for it to be applied: the resolution of times in
/// many traces.
pub(crate) const DRIFT_MATTERS: DurationNs = DurationNs(1_000);

/// Maximum share, one in this many, of a graph launch's rows and of a capture's launches that may
/// be left over when they are aligned.
pub(crate) const LEFT_OVER: usize = 10;

/// True if, within clock tolerance, an interval that ends at `end` can be the cause of an event at
/// `time`.
pub(crate) fn ends_before(end: TimeNs, time: TimeNs) -> bool {
    end.since(time) <= CLOCK_TOLERANCE.0
}
