//! A memory budget: what a rank takes, told from its files before work starts, against what there
//! is.

pub(crate) mod gate;
pub(crate) mod limit;
mod resident;
mod system;
mod unpacked;
pub(crate) mod watch;
mod work;

pub use limit::{MemoryLimit, OversizedRank};
pub(crate) use unpacked::unpacked_size;
pub use work::RankOperation;

use crate::Progress;
use crate::error::RunError;
use crate::input::database::event_rows;
use crate::input::{self, InputKind};
use crate::storage::{self, StoredKind};
use crate::text::file_name;
use bytesize::ByteSize;
use etlink_flight_recorder::{MAX_DUMP_BYTES, MAX_DUMP_VALUES};
use gate::{MemoryGate, OverBudget};
use std::path::{Path, PathBuf};

/// Peak memory per byte of host trace, in percent. Measured: see [`DEVICE_PERCENT`].
const HOST_PERCENT: u64 = 60;
/// Peak memory per byte of device trace, in percent.
///
/// Peak RSS of `etlink link -o x.et` and `-o x.json` with 1, 2 and 8 threads, on 29 recordings that
/// `cargo dev generate` repeated to 100 MB and 400 MB. Beyond [`BASE`] and [`PER_THREAD`], device
/// traces took 0.02 to 0.57 of their size: most where nearly every event is a CPU op without
/// arguments (PyTorch 2.1, 2.3), least with Python stacks. Host traces added 0.2 to 0.55 of theirs,
/// most with schema 1.0.1. These are the greatest and a tenth; to be measured anew when columns
/// change.
const DEVICE_PERCENT: u64 = 65;
/// The same of profiles of XLA, of trace JSON that XLA draws, and of JSON of rocprofv3, whose events
/// are shorter than those of Kineto. Peak RSS of `etlink link` of 3·10^5 kernels with as many calls
/// and ops, and a tenth.
const PROFILE_PERCENT: u64 = 1280;
const DRAWN_PERCENT: u64 = 190;
const ROCPROF_PERCENT: u64 = 135;
/// The same of merged JSON, of which both traces are made: nodes are read as ops and for their times.
/// Peak RSS of `etlink analyze` of 221 MB of it with one thread, beyond [`BASE`] and [`PER_THREAD`]:
/// 0.83 of their size; and a tenth.
const MERGED_PERCENT: u64 = 92;
/// The same, in percent, where ranks come in turn: glibc's malloc keeps a part of what a rank gave
/// back, and the next rank gets only some of that. The same recordings, four ranks one after
/// another with 2 and 8 threads: 1.0 to 1.37.
const IN_TURN_PERCENT: u64 = 150;
/// The same, of what is kept beside that of a device trace for an export that leaves nothing out:
/// the text of arguments, and columns of events that no graph needs.
const DETAILS_PERCENT: u64 = 110;
/// Bytes of trace for each event, to tell what work takes from sizes of files: of 430,000 events of a
/// device trace 368, of 230,000 nodes of a host trace 828. Shorter events are known when they are read.
const HOST_EVENT_BYTES: u64 = 750;
const DEVICE_EVENT_BYTES: u64 = 340;
/// Peak memory per row of a database that becomes an event, bytes. Peak RSS of `etlink link -o x.et`
/// with 2 threads, of an export with 1.0 million device rows, 2.5 million calls and 4.0 million ranges:
/// 225. This is that and a sixth.
const ROW_BYTES: u64 = 260;
/// What the process takes before it reads anything: the program's own pages (the release build: 14 MB),
/// allocator, output buffers.
const BASE: u64 = 16_000_000;
/// Peak memory per value of a flight recorder's dump, beyond its bytes. Peak RSS of `etlink inspect`
/// of a pickle of 10^7 empty lists, which take the most: 54. This is that and a tenth.
const DUMP_VALUE_BYTES: u64 = 60;
/// Chunks in work per thread, of both traces: 1 to 2 MB measured with 1 to 64 threads.
const PER_THREAD: u64 = 2_000_000;

/// Peak memory per byte of a device trace, in percent, by its recorder.
fn device_percent(path: &Path) -> u64 {
    let name = file_name(path).to_lowercase();
    let plain = name.strip_suffix(".gz").or(name.strip_suffix(".zst"));
    let plain = plain.unwrap_or(&name);
    if plain.ends_with(".xplane.pb") {
        return PROFILE_PERCENT;
    }
    // The names of PyTorch's traces tell that they are. To open each file of a large run takes time.
    let is_named_so = plain.ends_with("_results.json")
        || plain.ends_with(".trace.json") && !plain.ends_with(".pt.trace.json");
    // A pipe would be waited for, and its first bytes lost.
    if !is_named_so || !storage::is_file(path) {
        return DEVICE_PERCENT;
    }
    match input::open(path, &Progress::hidden()).map(|input| input.kind) {
        Ok(InputKind::XlaJson) => DRAWN_PERCENT,
        Ok(InputKind::RocprofJson) => ROCPROF_PERCENT,
        _ => DEVICE_PERCENT,
    }
}

/// What one rank takes.
#[derive(Clone, Debug, Default)]
pub struct RankMemory {
    files: Vec<PathBuf>,
    pub(crate) unpacked: u64,
    /// Beyond what the process takes anyway, bytes; 0 where sizes are not known (standard input,
    /// pipes).
    pub bytes: u64,
    /// The size of a file is not known: it is standard input or a pipe.
    pub(crate) is_unknown: bool,
    /// It is a recording, not a written graph.
    pub(crate) is_recording: bool,
    /// How many events its traces may have, of PyTorch; 0 of others.
    events: u64,
    /// What its work may take beyond that, for messages; 0 where linking takes most.
    at_work: u64,
}

impl RankMemory {
    /// Looks at the sizes of a rank's files. What cannot be read counts nothing: reading it will
    /// tell.
    pub fn of(host: Option<&Path>, device: Option<&Path>) -> RankMemory {
        // a file that is not there is refused by name when it is opened
        let [host_size, device_size] = [host, device].map(|path| path.map(unpacked::unpacked_size));
        let is_unknown = [(host, host_size), (device, device_size)]
            .into_iter()
            .any(|(path, size)| size == Some(None) && path.is_some_and(has_no_size));
        let bytes = |size: Option<Option<u64>>| size.flatten().unwrap_or(0);
        let (host_bytes, device_bytes) = (bytes(host_size), bytes(device_size));
        // most of a large report is samples and calls of the C library, which are not read
        let rows = device.and_then(event_rows);
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

    /// Where only a slice of its traces is kept: how much of them that is shows when they are read.
    pub(crate) fn of_slice(self) -> RankMemory {
        RankMemory {
            bytes: 0,
            is_unknown: true,
            events: 0,
            at_work: 0,
            ..self
        }
    }

    /// The same where so much is done with its traces. Which events they have is not known before they
    /// are read, so that a rank is let in by what linking takes; a refusal names this.
    pub(crate) fn for_work(self, work: RankOperation) -> RankMemory {
        RankMemory {
            at_work: match self.events {
                0 => 0,
                events => work.bytes_of_events(events),
            },
            ..self
        }
    }

    /// What is named where it is refused: no less than the rank will be found to take.
    fn named(&self) -> u64 {
        self.bytes.max(gate::limit_for(self.at_work))
    }

    /// Of merged JSON.
    pub fn of_merged(path: &Path) -> RankMemory {
        let unpacked = unpacked::unpacked_size(path).unwrap_or(0);
        RankMemory {
            files: vec![path.to_owned()],
            unpacked,
            bytes: percent_of(unpacked, MERGED_PERCENT),
            ..RankMemory::default()
        }
    }

    /// Of a rank whose files were looked at elsewhere.
    pub(crate) fn counted(bytes: u64) -> RankMemory {
        RankMemory {
            bytes,
            ..RankMemory::default()
        }
    }

    /// Of one of so many processes whose rows are in the same database. Processes of a run are much
    /// alike: twice an equal share is enough.
    pub fn of_one_process(self, processes: usize) -> RankMemory {
        let share = self.bytes / (processes.max(1) as u64);
        RankMemory {
            bytes: self.bytes.min(share.saturating_mul(2)),
            ..self
        }
    }

    /// With one more device trace that is read beside them.
    pub fn and(self, device: Option<&Path>) -> RankMemory {
        let other = RankMemory::of(None, device);
        let files = self.files.into_iter().chain(other.files).collect();
        RankMemory {
            files,
            unpacked: self.unpacked.saturating_add(other.unpacked),
            bytes: self.bytes.saturating_add(other.bytes),
            is_unknown: self.is_unknown || other.is_unknown,
            ..self
        }
    }

    /// With the dump of its flight recorder.
    pub fn and_dump(self, dump: Option<&Path>) -> RankMemory {
        let Some(path) = dump else {
            return self;
        };
        // of a longer one only the begin is read, and then it is refused
        let size = unpacked::unpacked_size(path).unwrap_or(0);
        let size = size.min(MAX_DUMP_BYTES);
        // a byte makes one value at most
        let values = size.min(MAX_DUMP_VALUES);
        let need = size.saturating_add(values.saturating_mul(DUMP_VALUE_BYTES));
        let files = self.files.into_iter().chain([path.to_owned()]).collect();
        RankMemory {
            files,
            unpacked: self.unpacked.saturating_add(size),
            bytes: self.bytes.saturating_add(need),
            ..self
        }
    }

    /// Where all events of its device trace are kept with their text.
    pub fn with_details(self, device: Option<&Path>) -> RankMemory {
        let size = device.map_or(0, |device| unpacked::unpacked_size(device).unwrap_or(0));
        let details = percent_of(size, DETAILS_PERCENT);
        RankMemory {
            bytes: self.bytes.saturating_add(details),
            ..self
        }
    }

    /// For a rank that comes after others in the same process.
    pub fn in_turn(self) -> RankMemory {
        RankMemory {
            bytes: percent_of(self.bytes, IN_TURN_PERCENT),
            ..self
        }
    }
}

/// How much memory there is.
#[derive(Clone, Copy, Debug)]
pub struct MemoryBudget {
    total: u64,
    /// From `--memory`, not from the system.
    asked: bool,
    threads: usize,
}

impl MemoryBudget {
    /// `--memory`, else what the system can give; no limit where it does not say.
    pub fn new(asked: Option<ByteSize>, threads: usize) -> MemoryBudget {
        let total = asked
            .map(|size| size.as_u64())
            .or_else(system::available_memory);
        MemoryBudget {
            // no limit, rather than none that can be met: macOS and Windows do not say as Linux
            // does
            total: total.unwrap_or(u64::MAX),
            asked: asked.is_some(),
            threads,
        }
    }

    /// Does one job for each need, in their order, as many at once as there is room for. Results are
    /// in the jobs' order.
    pub fn map<T: Send>(&self, needs: &[RankMemory], job: impl Fn(usize) -> T + Sync) -> Vec<T> {
        gate::in_budget(&self.gate(needs), self.threads, job)
    }

    /// What such jobs wait at.
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

    /// A rank that turned out to take more than there is, when so many bytes of it were read.
    pub(crate) fn oversized(&self, need: &RankMemory, over: OverBudget, read: u64) -> RunError {
        let guess = if over.is_read { 0 } else { need.named() };
        let needed = gate::limit_for(over.needed).max(guess);
        RunError::OversizedRank(Box::new(OversizedRank {
            files: need.files.clone(),
            unpacked: need.unpacked.max(read),
            is_part: need.is_unknown && !over.is_read,
            needed: self.more_than_there_is(with_base(needed)),
            others: 0,
            limit: self.limit(),
            // what was held is little more than one thread would be allowed
            is_recording: need.is_recording,
            fits_one_thread: false,
        }))
    }

    /// What to name where so much was held, and there was no room for the rest: what is held is
    /// looked at before all of it is taken, so that it may be less than there is.
    pub(crate) fn more_than_there_is(&self, held: u64) -> u64 {
        held.max(self.total.saturating_add(self.total / 20))
    }

    /// Refuses ranks of which one alone takes more than there is.
    ///
    /// # Errors
    /// [`RunError::OversizedRank`], of the largest.
    pub fn check(&self, needs: &[RankMemory]) -> Result<(), RunError> {
        let room = self.for_ranks();
        let too_large = needs.iter().filter(|need| need.bytes > room);
        let count = too_large.clone().count();
        // the first of the largest, whatever else is in the folder
        let Some(worst) = too_large.rev().max_by_key(|need| need.bytes) else {
            return Ok(());
        };
        Err(RunError::OversizedRank(Box::new(OversizedRank {
            files: worst.files.clone(),
            unpacked: worst.unpacked,
            is_part: false,
            needed: worst.named().saturating_add(fixed_bytes(self.threads)),
            others: count - 1,
            limit: self.limit(),
            is_recording: worst.is_recording,
            fits_one_thread: worst.bytes.saturating_add(fixed_bytes(1)) <= self.total,
        })))
    }

    /// How much there is, for messages.
    pub fn limit(&self) -> MemoryLimit {
        MemoryLimit {
            bytes: self.total,
            is_asked: self.asked,
        }
    }

    /// What is left for ranks beside what the process takes.
    pub fn for_ranks(&self) -> u64 {
        self.total.saturating_sub(fixed_bytes(self.threads))
    }

    /// Threads for each rank, of which so many can be in work at once.
    ///
    /// Where memory is short, ranks have one each: a rank then leaves most of its memory to the
    /// next (peak 1.1 times that of one rank, not 1.8), so that more ranks fit.
    pub fn threads_each(&self, ranks: usize, at_once: usize) -> usize {
        if at_once < ranks.min(self.threads) {
            1
        } else {
            (self.threads / ranks.max(1)).max(1)
        }
    }
}

/// Whether what has no size is standard input or a pipe, and not absent.
fn has_no_size(path: &Path) -> bool {
    let is_other = || storage::file_data(path).is_ok_and(|data| data.kind == StoredKind::Other);
    path == Path::new("-") || is_other()
}

fn percent_of(bytes: u64, percent: u64) -> u64 {
    // divided first: estimates of damaged sizes come near the end of u64
    (bytes / 100).saturating_mul(percent)
}

/// What a process holds that takes so much for ranks.
pub(crate) fn with_base(bytes: u64) -> u64 {
    bytes.saturating_add(BASE)
}

/// What the process takes with one thread before it reads anything.
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
