//! Offset of this machine's clock from the clock of the output folder's file system, which all
//! machines of a job share.
//!
//! A new file gets its time from the server, or from the kernel if the folder is local. That time
//! is between two readings of this machine's clock, one before and one after the file was created.
//! So each file gives an interval that contains the offset; all files together give their
//! intersection.

use etlink_torch::{FILE_SYSTEM, HostClock};
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const PROBES: usize = 10;
/// Length of a kernel tick, in ns: files get the time of the last tick, at least 100 per second.
const TICK_NS: i64 = 10_000_000;
/// Coarsest file times, in ns: some file systems store whole seconds, or only every other second.
const WHOLE_SECONDS_NS: i64 = 2_000_000_000;
const NAME: &str = "clock-";

/// Interval, in ns, that contains the lead of the file system's clock over this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetInterval {
    least: i64,
    most: i64,
}

impl OffsetInterval {
    /// Measures the interval; `None` if the folder is not writable or a clock was set meanwhile.
    pub fn measure(folder: &Path) -> Option<OffsetInterval> {
        let probes: io::Result<Vec<Probe>> = (0..PROBES).map(|_| Probe::new(folder)).collect();
        common(&probes.ok()?)
    }

    /// Combines two measurements made some time apart. Clocks drift, so both may be right.
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
            // the division dropped half a nanosecond
            uncertainty_ns: half + 1,
            against: FILE_SYSTEM.to_owned(),
        }
    }
}

/// Times around the creation of a file, in ns since 1970.
struct Probe {
    before: i64,
    written: i64,
    after: i64,
}

impl Probe {
    fn new(folder: &Path) -> io::Result<Probe> {
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
        // 5 s ahead; the second file was created at once, and a tick came in between
        let probes = [probe(0, 5_001, 9), probe(20, 5_015, 21)];
        let found = common(&probes).expect("an interval");
        assert_eq!((found.least, found.most), (4_994 * ms + 1, 5_005 * ms + 1));
        let clock = found.clock();
        assert!((clock.offset_ns - 5_000 * ms).abs() <= clock.uncertainty_ns);
        // the clock was set meanwhile
        assert_eq!(common(&[probe(0, 0, 1), probe(2, 5_002, 3)]), None);
    }

    #[test]
    fn clocks_that_drift_are_in_both_intervals_or_between() {
        let interval = |least, most| OffsetInterval { least, most };
        assert_eq!(interval(0, 10).with(interval(5, 20)), interval(5, 10));
        assert_eq!(interval(0, 10).with(interval(15, 20)), interval(0, 20));
    }
}
