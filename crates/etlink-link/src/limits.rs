//! Every tolerance of the linker, and what is known of it.
//!
//! A limit divides what one rule explains from what needs another cause. Where one is measured, the
//! traces are the public ones of `docs/src/reference/evidence.md`, and the figure is the share of
//! cases on the near side.

use etlink_model::{DurationNs, TimeNs};

/// Host and device clocks differ by up to this: a row may start that much before its call and still
/// be launched by it.
///
/// CUPTI converts the device's clock to the host's, which leaves an error of one to two
/// microseconds. Kineto adds none of its own (`convertCuptiTimestamp` in `CuptiTimestamp.h`).
pub const CLOCK_TOLERANCE: DurationNs = DurationNs(2_000);

/// A row that starts by more than this before the call of its id is of another call with that id.
/// Correlation ids are unique within a process, so that an earlier start is an error of the clocks.
///
/// ROCm traces have been seen 0.3 ms off. Of 30,000 launched rows of 22 public traces none starts
/// before its call.
pub(crate) const EARLY_START: DurationNs = DurationNs(1_000_000);

/// Of the bounds on a clock one in so many may be wrong: an id that was used twice, or a call that
/// did not wait after all. Of 16 public traces up to 0.5 % of the rows started before their call.
pub(crate) const CLOCK_OUTLIERS: u64 = 100;

/// A clock is not set ahead for the sake of calls that waited if that puts more than one in so many
/// rows before their launch, and not back for the sake of launches if that makes more than one in
/// so many calls return too early.
pub(crate) const CLOCK_PRICE: u64 = 10;

/// Fewer bounds than this say nothing of a clock, of those that a wrong guess makes or a row of
/// another call.
pub(crate) const LEAST_BOUNDS: usize = 3;

/// Fewer launches or calls that waited than this say nothing of a drift.
pub(crate) const LEAST_FOR_CLOCK_DRIFT: usize = 8;

/// A row that starts later than this after its launch call began waits for something else as well.
///
/// Measured: 99 % start within 15 to 30 us. Calls that load modules or copy to staging memory take
/// longer, and then the row waits for the call's end.
pub const LAUNCH_LATENCY: DurationNs = DurationNs(100_000);

/// What follows the end of its cause by more than this was not waiting for that alone.
///
/// Measured: 99 % follow within 3 to 20 us, over rows of one stream, event waits and synchronising
/// calls.
pub const WAIT_LATENCY: DurationNs = DurationNs(30_000);

/// A row that begins this soon after a row of another queue, and that nothing else explains, has
/// waited for that one.
///
/// Tighter than [`WAIT_LATENCY`], since no call says that it waits at all.
pub(crate) const ALONE_LATENCY: DurationNs = DurationNs(10_000);

/// A thread that goes on this soon after the work that it had given away ended was waiting for it.
///
/// Measured: 8 to 50 us in recordings of DDP on CPUs with more threads than cores.
pub(crate) const WAKE_LATENCY: DurationNs = DurationNs(100_000);

/// A thread that slept goes on about so long after it was woken: that much of what follows its wait
/// is no work.
///
/// Waking through a futex takes 5 to 50 us on Linux (`futex(2)`, idle states of the core included).
/// Nothing in a trace divides it from what the thread does then, so that the low end is taken.
pub const USUAL_WAKE: DurationNs = DurationNs(10_000);

/// Both ends of a range or row are rounded by up to this: PyTorch before 2.4 writes whole
/// microseconds.
///
/// Kineto divided start and length by 1000, each by itself (`nsToUs` in `CuptiActivity.h`), until
/// pytorch/kineto#907.
pub(crate) const ROUNDING: DurationNs = DurationNs(1_000);

/// A row that starts by no more than this before the row before it on its stream ends follows that
/// one also if no launch shows their order.
///
/// Kernels with programmatic dependent launch overlap by up to 3.7 us in a trace of a B200 (74 of 929
/// rows).
pub(crate) const PROGRAMMATIC_OVERLAP: DurationNs = DurationNs(4_000);

/// A row of no length is damage if others of its name usually last this long: rounding takes less than
/// a microsecond at each end.
pub(crate) const NO_ROUNDING: DurationNs = DurationNs(5_000);

/// And kernels of no length are damage if one in so many has none, or if times have nanoseconds.
///
/// In the public traces of A100 to B200 and MI210 to MI300 no kernel takes less than 1 us.
pub(crate) const NO_LENGTH_PART: u64 = 10;

/// But fewer than these can be rounded ones.
pub(crate) const LEAST_NO_LENGTH: u64 = 16;

/// Recordings are taken to be this long at least where rows are looked for that are outside of them.
///
/// In a recording of one graph launch of 2 ms the rows begin 8 ms behind its calls.
pub(crate) const RECORDING_MARGIN: DurationNs = DurationNs(100_000_000);

/// A row that covers others of its stream lasts too long if it lasts so many times as long as its
/// like usually do.
///
/// In 33 public traces of A100, H100, B200, V100 and MI210 to MI300 no row covers another of its
/// stream.
pub(crate) const LONGER_THAN_LIKE: i64 = 10;

/// And a row behind which nothing runs, if it lasts so many times as long.
pub(crate) const LONGER_THAN_RECORDING: i64 = 100;

/// A row that covers so many others of its stream lasts too long, whatever its like do.
pub(crate) const MANY_COVERED: usize = 3;

/// And one in which so many others begin: programmatic dependent launches overlap their neighbours.
pub(crate) const MANY_BEGUN: usize = 4;

/// How many rows that begin before a row ends are looked at for one that it covers.
pub(crate) const MAX_COVERED_LOOKUPS: usize = 64;

/// The launches whose rows share an id are no further apart than so many launches of their thread.
///
/// kineto#1416 shows pairs of launches that follow each other.
pub(crate) const SHARED_REACH: usize = 64;

/// Where more than one in so many launches has no row, nothing is said of what devices did: idle time
/// would be off by as much.
///
/// In 33 public traces all launches of CUDA and HIP have a row, but for memsets.
pub const LOST_PART: i64 = 20;

/// But a stretch of losses goes on over no more rows than this: where one in 20 launches loses its row
/// at random, one gap in 170 is longer.
pub(crate) const MAX_BETWEEN_LOST: i64 = 100;

/// So many lost rows make a stretch of a recording unknown.
pub(crate) const LEAST_LOST: i64 = 8;

/// Fewer do if they are one in so many of all rows.
pub(crate) const LOST_OF_ALL: i64 = 100;

/// But a single one is no loss of the recorder: a launch may have failed.
pub(crate) const FEW_LOST: i64 = 2;

/// How many ranges an op that the innermost one does not enclose climbs to find its parent. Bounds
/// the sweep.
pub(crate) const MAX_CLIMB: usize = 64;

/// How many rows that ended at about the right time are tried as what a call waited for.
pub(crate) const MAX_ROWS_OF_CALL: usize = 64;

/// How many queues a synchronisation is taken to wait for that does not say which.
pub(crate) const MAX_QUEUES_OF_CALL: usize = 64;

/// The same for a row that waited for another queue: queues end more rows at one time than threads
/// do.
pub(crate) const MAX_ROWS_OF_QUEUE: usize = 256;

/// How many groups that have a collective pending are tried for a worker thread that serves none
/// yet.
pub(crate) const MAX_GROUPS_TRIED: usize = 64;

/// Below this share of matched ops of the smaller trace two traces are of different programs.
pub(crate) const SAME_PROGRAM_SHARE: f64 = 0.5;

/// Programs share names. Aligned by order, the ops of one program leave few holes on either side;
/// below this share of a thread's stretch they are of different programs.
pub(crate) const DENSE_SHARE: f64 = 0.8;

/// How many steps pairing threads by their names may take before candidates replace all pairs.
pub(crate) const MAX_PAIRING_STEPS: usize = 1 << 24;

/// How many lookups processes may take to vote for devices; beyond, an even sample of the rows
/// votes.
pub(crate) const MAX_VOTES: usize = 1 << 22;

/// Traces of one run cover the same time: the clocks of hosts are closer than this, and so are
/// recordings that began one after the other.
pub(crate) const RUNS_APART: DurationNs = DurationNs(60_000_000_000);

/// Groups with more ranks than this are taken for damage.
pub(crate) const MAX_RANKS: u64 = 1 << 20;

/// A collective ends on all its ranks within this, or a fiftieth of its length.
///
/// Of 64 sides of eight ranks on one machine the ends are within 7 us; the last hop of a ring over
/// machines takes some more.
pub(crate) const ENDS_APART: DurationNs = DurationNs(20_000);

/// Fewer kernels without records than this, on ranks of one machine, are not joined by their ends.
pub(crate) const LEAST_INFERRED_OF_MACHINE: usize = 3;

/// The same where an offset of the clocks has to be found too: it takes one of the ends.
pub(crate) const LEAST_INFERRED: usize = 5;

/// Clocks of machines of one job differ by less than this: kernels that end together only by a
/// larger offset are not joined by that.
///
/// `chrony` and `ntpd` hold clocks within milliseconds, and step them when they are 128 ms off.
pub(crate) const MAX_CLOCKS_APART: DurationNs = DurationNs(1_000_000_000);

/// Clocks of computers do not run further apart than this, parts per billion: one in a thousand.
/// Quartz is within 100 ppm, what a time daemon slews within 500 ppm (`adjtimex`).
pub(crate) const MAX_DRIFT_PPB: i64 = 1_000_000;

/// Ranges that differ by a number are steps if at least this share of the device time is launched in
/// them, of a trace without device rows of the time of its ops.
///
/// More inside than outside: set-up and what follows the loop may be recorded as well. The 12 layers
/// of a pass whose head takes 77 % hold 23 %.
pub(crate) const STEP_WORK_SHARE: f64 = 0.5;

/// And if they fill at least this share of the time from the first one's start to the last one's end.
///
/// A loop that waits for its input between steps is still one. `FSDP::backward_prefetch for N` of the
/// recorded pairs fills 15 %, layers of one kind between others less.
pub(crate) const STEP_FILL_SHARE: f64 = 0.25;

/// Fewer collectives than this have no medians of their first and last third worth the name.
pub(crate) const LEAST_FOR_DRIFT: usize = 18;

/// What a drift has to move within the window to be applied: the resolution of times in many
/// traces.
pub(crate) const DRIFT_MATTERS: DurationNs = DurationNs(1_000);

/// Of a graph launch's rows, and of a capture's launches, one in so many may be left over where
/// they are laid along each other.
pub(crate) const LEFT_OVER: usize = 10;

/// Whether what ends at `end` can be the cause of what happens at `time`, as far as clocks tell.
pub(crate) fn ends_before(end: TimeNs, time: TimeNs) -> bool {
    end.since(time) <= CLOCK_TOLERANCE.0
}
