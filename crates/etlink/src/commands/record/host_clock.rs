//! How the clock of this machine lies to that of the file system of the output folder, which all
//! machines of a job share.
//!
//! A new file gets its time from the server, or from the kernel where the folder is on this machine.
//! The time lies between two readings of the own clock, one before and one after the file was made.
//! So each file gives an interval in which the offset is, and all files the common part of these.

use super::disk;
use etlink_torch::{FILE_SYSTEM, HostClock};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const PROBES: usize = 10;
/// The kernel gives files the time of its last tick, of which there are 100 a second at least.
const TICK_NS: i64 = 10_000_000;
/// Some file systems write whole seconds, or every second one.
const WHOLE_SECONDS_NS: i64 = 2_000_000_000;
const NAME: &str = "clock-";

/// From when to when the file system's clock is ahead of ours, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetInterval {
    least: i64,
    most: i64,
}

impl OffsetInterval {
    /// None where the folder cannot be written, or a clock was set meanwhile.
    pub fn measure(folder: &Path) -> Option<OffsetInterval> {
        let probes: io::Result<Vec<Probe>> = (0..PROBES).map(|_| Probe::new(folder)).collect();
        common(&probes.ok()?)
    }

    /// After a while: clocks drift, so that both are true.
    pub fn with(self, later: OffsetInterval) -> OffsetInterval {
        let (least, most) = (self.least.max(later.least), self.most.min(later.most));
        if least <= most {
            return OffsetInterval { least, most };
        }
        OffsetInterval {
            least: self.least.min(later.least),
            most: self.most.max(later.most),
        }
    }

    pub fn clock(self) -> HostClock {
        let half = (self.most - self.least) / 2;
        HostClock {
            offset_ns: self.least + half,
            // a half nanosecond was cut
            uncertainty_ns: half + 1,
            against: FILE_SYSTEM.to_owned(),
        }
    }
}

/// Times in ns since 1970.
struct Probe {
    before: i64,
    written: i64,
    after: i64,
}

impl Probe {
    fn new(folder: &Path) -> io::Result<Probe> {
        disk::attempt(folder)?;
        let before = nanoseconds(SystemTime::now())?;
        let file = tempfile::Builder::new().prefix(NAME).tempfile_in(folder)?;
        let after = nanoseconds(SystemTime::now())?;
        let written = nanoseconds(file.as_file().metadata()?.modified()?)?;
        Ok(Probe {
            before,
            written,
            after,
        })
    }
}

fn nanoseconds(time: SystemTime) -> io::Result<i64> {
    let since = time.duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    i64::try_from(since.as_nanos()).map_err(io::Error::other)
}

fn common(probes: &[Probe]) -> Option<OffsetInterval> {
    let is_whole = probes
        .iter()
        .all(|probe| probe.written % 1_000_000_000 == 0);
    let lag = if is_whole { WHOLE_SECONDS_NS } else { TICK_NS };
    let least = probes
        .iter()
        .map(|probe| probe.written - probe.after)
        .max()?;
    let most = probes
        .iter()
        .map(|probe| probe.written + lag - probe.before)
        .min()?;
    (least <= most).then_some(OffsetInterval { least, most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_lies_in_the_intervals_of_all_files() {
        let ms = 1_000_000;
        let probe = |before: i64, written: i64, after: i64| Probe {
            before: before * ms,
            written: written * ms + 1,
            after: after * ms,
        };
        // 5 s behind; the second file was made at once, and a tick came in between
        let probes = [probe(0, 5_001, 9), probe(20, 5_015, 21)];
        let found = common(&probes).expect("an interval");
        assert_eq!((found.least, found.most), (4_994 * ms + 1, 5_005 * ms + 1));
        let clock = found.clock();
        assert!((clock.offset_ns - 5_000 * ms).abs() <= clock.uncertainty_ns);
        // the clock was set
        assert_eq!(common(&[probe(0, 0, 1), probe(2, 5_002, 3)]), None);
    }

    #[test]
    fn clocks_that_drift_are_in_both_intervals_or_between() {
        let interval = |least, most| OffsetInterval { least, most };
        assert_eq!(interval(0, 10).with(interval(5, 20)), interval(5, 10));
        assert_eq!(interval(0, 10).with(interval(15, 20)), interval(0, 20));
    }
}
