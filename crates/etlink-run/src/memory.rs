//! Memory budget: estimates the memory of each rank from its files, and compares it with the
//! available memory.

pub(crate) mod gate;
pub(crate) mod limit;
mod resident;
mod system;
mod unpacked;
pub(crate) mod watch;
mod work;

pub use limit::MemoryLimit;
use limit::OversizedRank;
pub(crate) use unpacked::unpacked_size;
pub use work::RankOperation;

use crate::Progress;
use crate::error::RunError;
use crate::input::database::event_rows;
use crate::input::{self, InputKind};
use crate::storage::{self, StoredKind};
use crate::text::has_ending;
use bytesize::ByteSize;
use etlink_formats::flight_recorder::{MAX_DUMP_BYTES, MAX_DUMP_VALUES};
use gate::{MemoryGate, OverBudget};
use std::path::{Path, PathBuf};

/// Peak memory per byte of host trace, in percent. Measured as for [`DEVICE_PERCENT`].
const HOST_PERCENT: u64 = 60;
/// Peak memory per byte of device trace, in percent.
///
/// Measured: peak RSS of `etlink link -o x.et` and `-o x.json` with 1, 2 and 8 threads, on 29
/// recordings that the recipe `repeat.py` repeated to 100 MB and 400 MB. Beyond [`BASE`] and
/// [`PER_THREAD`], device traces took 0.02 to 0.57 of their size: most if nearly every event is a
/// CPU op without arguments (PyTorch 2.1, 2.3), least with Python stacks. Host traces added 0.2 to
/// 0.55 of their size, most with schema 1.0.1. The constants are the maxima plus 10 %. Measure
/// again when columns change.
const DEVICE_PERCENT: u64 = 65;
/// Peak memory per byte of XLA profiles, in percent. Events of XLA and rocprofv3 are shorter than
/// Kineto's. Measured for these three constants: peak RSS of `etlink link` of 3·10^5 kernels
/// with as many calls and ops, plus 10 %.
const PROFILE_PERCENT: u64 = 1280;
const DRAWN_PERCENT: u64 = 190;
const ROCPROF_PERCENT: u64 = 135;
/// Memory of a rank that follows others in the same process, in percent of its own: glibc's malloc
/// retains a part of the memory that a rank freed, and the next rank reuses only some of it.
/// Measured with the same recordings, four ranks in sequence with 2 and 8 threads: 100 to 137 %.
const IN_TURN_PERCENT: u64 = 150;
/// Additional memory per byte of device trace for an export of all events, in percent: the text of
/// arguments, and columns of events that no graph needs.
const DETAILS_PERCENT: u64 = 110;
/// Bytes of trace per event, to estimate the memory of work from file sizes. Measured: 368 for
/// 430,000 events of a device trace, 828 for 230,000 nodes of a host trace. Shorter events are only
/// noticed during reading.
const HOST_EVENT_BYTES: u64 = 750;
const DEVICE_EVENT_BYTES: u64 = 340;
/// Peak memory per database row that becomes an event, bytes. Peak RSS of `etlink link -o x.et`
/// with 2 threads, of an export with 1.0 million device rows, 2.5 million calls and 4.0 million
/// ranges: 225. The constant adds a sixth.
const ROW_BYTES: u64 = 260;
/// Memory of the process before it reads anything, bytes: pages of the program (release build: 14
/// MB), allocator, output buffers.
const BASE: u64 = 16_000_000;
/// Peak memory per value of a flight recorder dump, beyond its bytes. Peak RSS of `etlink inspect`
/// of a pickle of 10^7 empty lists, the worst case: 54. The constant adds 10 %.
const DUMP_VALUE_BYTES: u64 = 60;
/// Memory per thread for chunks of both traces, bytes: 1 to 2 MB measured with 1 to 64 threads.
const PER_THREAD: u64 = 2_000_000;

/// Returns the peak memory per byte of a device trace, in percent, by its recorder.
fn device_percent(path: &Path) -> u64 {
    if has_ending(path, &[".xplane.pb"]) {
        return PROFILE_PERCENT;
    }
    // The names of PyTorch's traces identify them. Opening every file of a large run takes time.
    let is_named_so = has_ending(path, &["_results.json", ".trace.json"])
        && !has_ending(path, &[".pt.trace.json"]);
    // Reading a pipe would block and lose its first bytes.
    if !is_named_so || !storage::is_file(path) {
        return DEVICE_PERCENT;
    }
    match input::open(path, &Progress::hidden()).map(|input| input.kind) {
        Ok(InputKind::XlaJson) => DRAWN_PERCENT,
        Ok(InputKind::RocprofJson) => ROCPROF_PERCENT,
        _ => DEVICE_PERCENT,
    }
}

/// Estimated memory of one rank.
#[derive(Clone, Debug, Default)]
pub struct RankMemory {
    files: Vec<PathBuf>,
    pub(crate) unpacked: u64,
    /// Memory in addition to the process itself, bytes; 0 if file sizes are unknown (standard
    /// input, pipes).
    pub bytes: u64,
    /// True if the size of a file is unknown: standard input or a pipe.
    pub(crate) is_unknown: bool,
    /// True for recordings, false for written graphs.
    pub(crate) is_recording: bool,
    /// Estimated number of events in PyTorch traces; 0 for other traces.
    events: u64,
    /// Estimated peak memory of the work on the rank, for messages, bytes; 0 if linking takes most.
    at_work: u64,
}

impl RankMemory {
    /// Estimates the memory from the sizes of a rank's files. Unreadable files count as empty:
    /// reading them will report the error.
    pub fn of(host: Option<&Path>, device: Option<&Path>) -> RankMemory {
        // a missing file is refused by name when it is opened
        let [host_size, device_size] =
            [host, device].map(|path| path.and_then(unpacked::file_size));
        let is_unknown = [(host, host_size), (device, device_size)]
            .into_iter()
            .any(|(path, size)| size.is_none() && path.is_some_and(has_no_size));
        let [host_bytes, device_bytes] =
            [host_size, device_size].map(|size| size.map_or(0, |size| size.unpacked));
        // most of a large report is samples and calls of the C library, which are not read
        let rows = match device_size {
            Some(size) if size.is_database => device.and_then(event_rows),
            _ => None,
        };
        let percent = device.map_or(DEVICE_PERCENT, device_percent);
        let device_need = match rows {
            Some(rows) => rows.saturating_mul(ROW_BYTES),
            None => percent_of(device_bytes, percent),
        };
        let events = if rows.is_none() && percent == DEVICE_PERCENT {
            host_bytes / HOST_EVENT_BYTES + device_bytes / DEVICE_EVENT_BYTES
        } else {
            0
        };
        let files = host.into_iter().chain(device).map(Path::to_owned).collect();
        let bytes = percent_of(host_bytes, HOST_PERCENT).saturating_add(device_need);
        RankMemory {
            files,
            unpacked: host_bytes.saturating_add(device_bytes),
            bytes,
            is_unknown,
            events,
            ..RankMemory::default()
        }
    }

    /// Adapts the estimate for a slice of the traces, whose size is only known after reading.
    pub(crate) fn of_slice(self) -> RankMemory {
        RankMemory {
            bytes: 0,
            is_unknown: true,
            events: 0,
            at_work: 0,
            ..self
        }
    }

    /// Adds the memory of the work on the traces. Their events are unknown before reading, so the
    /// estimate for linking decides when a rank may begin. A refusal states this figure.
    pub(crate) fn for_work(mut self, work: RankOperation) -> RankMemory {
        if self.events > 0 {
            self.at_work = work.bytes_of_events(self.events);
        }
        self
    }

    /// Returns the memory stated in a refusal: no less than a measurement would find.
    fn named(&self) -> u64 {
        self.bytes.max(gate::limit_for(self.at_work))
    }

    /// Estimates the memory of one of several processes in the same database. Processes of a run
    /// are similar, so twice an equal share suffices.
    pub fn of_one_process(mut self, processes: usize) -> RankMemory {
        let share = self.bytes / (processes.max(1) as u64);
        self.bytes = self.bytes.min(share.saturating_mul(2));
        self
    }

    /// Adds another device trace that is read with the rank.
    pub fn and(mut self, device: Option<&Path>) -> RankMemory {
        let other = RankMemory::of(None, device);
        self.is_unknown |= other.is_unknown;
        self.with(other.files, other.unpacked, other.bytes)
    }

    fn with(mut self, files: Vec<PathBuf>, unpacked: u64, bytes: u64) -> RankMemory {
        self.files.extend(files);
        self.unpacked = self.unpacked.saturating_add(unpacked);
        self.bytes = self.bytes.saturating_add(bytes);
        self
    }

    /// Adds the rank's flight recorder dump.
    pub fn and_dump(self, dump: Option<&Path>) -> RankMemory {
        let Some(path) = dump else {
            return self;
        };
        // of a longer dump, only the beginning is read before it is refused
        let size = unpacked::unpacked_size(path).unwrap_or(0);
        let size = size.min(MAX_DUMP_BYTES);
        // each value takes at least one byte
        let values = size.min(MAX_DUMP_VALUES);
        let need = size.saturating_add(values.saturating_mul(DUMP_VALUE_BYTES));
        self.with(vec![path.to_owned()], size, need)
    }

    /// Adds the log of the rank's communicators, whose calls take less memory than their text.
    pub fn and_log(self, log: Option<&Path>) -> RankMemory {
        let Some(path) = log else {
            return self;
        };
        let size = unpacked::unpacked_size(path).unwrap_or(0);
        self.with(vec![path.to_owned()], size, size)
    }

    /// Adds the memory to keep all events of the device trace with their text.
    pub fn with_details(self, device: Option<&Path>) -> RankMemory {
        let size = device.map_or(0, |device| unpacked::unpacked_size(device).unwrap_or(0));
        self.with(vec![], 0, percent_of(size, DETAILS_PERCENT))
    }

    /// Adapts the estimate for a rank that follows others in the same process.
    pub fn in_turn(mut self) -> RankMemory {
        self.bytes = percent_of(self.bytes, IN_TURN_PERCENT);
        self
    }
}

/// Available memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBudget {
    total: u64,
    /// True if the figure comes from `--memory`, not from the system.
    asked: bool,
    threads: usize,
}

impl MemoryBudget {
    /// Creates the budget from `--memory`, or else from the system; unlimited if the system does
    /// not report it.
    pub fn new(asked: Option<ByteSize>, threads: usize) -> MemoryBudget {
        let total = asked
            .map(|size| size.as_u64())
            .or_else(system::available_memory);
        MemoryBudget {
            // unlimited instead of zero: macOS and Windows do not report memory like Linux
            total: total.unwrap_or(u64::MAX),
            asked: asked.is_some(),
            threads,
        }
    }

    /// Calls `job` for each need, in order, as many at a time as fit. Results keep the order.
    pub fn map<T: Send>(&self, needs: &[RankMemory], job: impl Fn(usize) -> T + Sync) -> Vec<T> {
        gate::in_budget(&self.gate(needs), self.threads, job)
    }

    /// Creates the gate at which such jobs wait.
    pub(crate) fn gate(&self, needs: &[RankMemory]) -> MemoryGate {
        let room = self.for_ranks();
        let bytes = needs.iter().map(|need| need.bytes.min(room)).collect();
        let limit = self.total.saturating_sub(BASE);
        let gate = MemoryGate::new(bytes, room, limit, self.threads);
        if needs.iter().any(|need| need.is_unknown) {
            gate.of_unknown()
        } else {
            gate
        }
    }

    /// Creates the error for a rank that exceeded the budget after `read` bytes were read.
    pub(crate) fn oversized(&self, need: &RankMemory, over: OverBudget, read: u64) -> RunError {
        let guess = if over.is_read { 0 } else { need.named() };
        let needed = gate::limit_for(over.needed).max(guess);
        OversizedRank {
            files: need.files.clone(),
            unpacked: need.unpacked.max(read),
            is_part: need.is_unknown && !over.is_read,
            needed: self.more_than_there_is(with_base(needed)),
            others: 0,
            limit: self.limit(),
            // the memory held is little more than the limit with one thread
            is_recording: need.is_recording,
            fits_one_thread: false,
        }
        .failure()
        .into()
    }

    /// Returns the memory to state in an error after `held` bytes were not enough. They are
    /// measured before all is allocated, so the result is at least 5 % above the budget.
    pub(crate) fn more_than_there_is(&self, held: u64) -> u64 {
        held.max(self.total.saturating_add(self.total / 20))
    }

    /// Refuses ranks that exceed the budget even alone.
    ///
    /// # Errors
    /// Fails for the largest such rank.
    pub fn check(&self, needs: &[RankMemory]) -> Result<(), RunError> {
        let room = self.for_ranks();
        let too_large = needs.iter().filter(|need| need.bytes > room);
        let count = too_large.clone().count();
        // the first of the largest ranks, regardless of the others
        let Some(worst) = too_large.rev().max_by_key(|need| need.bytes) else {
            return Ok(());
        };
        Err(OversizedRank {
            files: worst.files.clone(),
            unpacked: worst.unpacked,
            is_part: false,
            needed: worst.named().saturating_add(fixed_bytes(self.threads)),
            others: count - 1,
            limit: self.limit(),
            is_recording: worst.is_recording,
            fits_one_thread: worst.bytes.saturating_add(fixed_bytes(1)) <= self.total,
        }
        .failure()
        .into())
    }

    /// Returns the available memory, for messages.
    pub fn limit(&self) -> MemoryLimit {
        MemoryLimit {
            bytes: self.total,
            is_asked: self.asked,
        }
    }

    /// Returns the memory left for ranks, without the process itself.
    pub fn for_ranks(&self) -> u64 {
        self.total.saturating_sub(fixed_bytes(self.threads))
    }

    /// Returns the threads per rank, given how many ranks can run at once.
    ///
    /// If memory is short, each rank gets one thread. A rank then frees most of its memory for the
    /// next (peak 1.1 times the memory of one rank, not 1.8), so that more ranks fit.
    pub fn threads_each(&self, ranks: usize, at_once: usize) -> usize {
        if at_once < ranks.min(self.threads) {
            1
        } else {
            (self.threads / ranks.max(1)).max(1)
        }
    }
}

/// Returns true if a path without a size is standard input or a pipe, and not missing.
fn has_no_size(path: &Path) -> bool {
    let is_other = || storage::file_data(path).is_ok_and(|data| data.kind == StoredKind::Other);
    path == Path::new("-") || is_other()
}

fn percent_of(bytes: u64, percent: u64) -> u64 {
    // divides first: estimates from damaged sizes approach the maximum of u64
    (bytes / 100).saturating_mul(percent)
}

/// Returns the memory of a process whose ranks take `bytes`.
pub(crate) fn with_base(bytes: u64) -> u64 {
    bytes.saturating_add(BASE)
}

/// Returns the memory of the process with one thread, before it reads anything.
pub fn least() -> ByteSize {
    ByteSize(fixed_bytes(1))
}

fn fixed_bytes(threads: usize) -> u64 {
    BASE + PER_THREAD * threads as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(bytes: u64) -> RankMemory {
        RankMemory {
            files: vec!["rank.json".into()],
            unpacked: bytes,
            bytes,
            ..RankMemory::default()
        }
    }

    #[test]
    fn threads_are_shared_where_all_ranks_fit() {
        let budget = MemoryBudget {
            total: 0,
            asked: true,
            threads: 8,
        };
        for (ranks, at_once, threads) in [
            (1, 1, 8),
            (2, 2, 4),
            (2, 1, 1),
            (64, 8, 1),
            (64, 3, 1),
            (8, 8, 1),
        ] {
            assert_eq!(
                budget.threads_each(ranks, at_once),
                threads,
                "{ranks} ranks, {at_once} at once"
            );
        }
    }

    #[test]
    fn fewer_threads_are_advised_where_they_help() {
        let advice = |total| {
            MemoryBudget {
                total,
                asked: true,
                threads: 64,
            }
            .check(&[need(100_000_000)])
            .expect_err("too much")
            .to_string()
        };
        assert!(advice(120_000_000).contains("-j 1"));
        assert!(!advice(90_000_000).contains("-j 1"));
    }

    #[test]
    fn recorders_with_shorter_events_take_more_per_byte() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let drawn = r#"{"traceEvents": [{"ph": "M", "args": {"name": "/device:TPU:0"}}]}"#;
        std::fs::write(path("vm.trace.json"), drawn).expect("writes");
        std::fs::write(path("7_results.json"), "{\"rocprofiler-sdk-tool\": [").expect("writes");
        std::fs::write(path("other_results.json"), "{}").expect("writes");
        for (name, percent) in [
            ("vm.xplane.pb.gz", PROFILE_PERCENT),
            ("vm.trace.json", DRAWN_PERCENT),
            ("7_results.json", ROCPROF_PERCENT),
            ("other_results.json", DEVICE_PERCENT),
            ("a.pt.trace.json", DEVICE_PERCENT),
            ("absent.trace.json", DEVICE_PERCENT),
        ] {
            assert_eq!(device_percent(&path(name)), percent, "{name}");
        }
    }

    #[test]
    fn what_has_no_size_is_not_refused() {
        assert!(
            MemoryBudget {
                total: 1,
                asked: true,
                threads: 2
            }
            .check(&[need(0)])
            .is_ok()
        );
    }
}
