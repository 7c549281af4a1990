//! Events, common to both forms of a profile.

use etlink_model::{Correlation, DurationNs, NameId, TimeNs};

/// Kind of work in a row of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StreamWork {
    /// Default if no details name another kind.
    #[default]
    Kernel,
    /// The event has `memcpy_details`.
    Memcpy,
    /// The event has `memset_details`.
    Memset,
    /// The event has details of an allocation, which takes no time on a stream.
    Memory,
}

/// Details of a kernel or copy in an event; most events have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkDetails {
    pub(crate) work: StreamWork,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) bytes: u64,
}

/// An event of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct XlaEvent {
    /// Index of the event's track.
    pub(crate) track: u32,
    pub(crate) name: NameId,
    pub(crate) start: TimeNs,
    pub(crate) duration: DurationNs,
    /// True if the event is a point in time.
    pub(crate) is_instant: bool,
    /// `hlo_op`.
    pub(crate) hlo: NameId,
    /// `hlo_module`.
    pub(crate) module: NameId,
    /// `correlation_id`.
    pub(crate) correlation: Correlation,
    /// `step_num` of a `StepTraceAnnotation`.
    pub(crate) step: Option<i64>,
    pub(crate) details: WorkDetails,
}

/// Minimum duration of a line's events in JSON: the writer turns 0 into 1 ps
/// (`trace_events_to_json.cc`).
const LEAST_PS: i128 = 1;
pub(crate) const PS_PER_NS: i128 = 1_000;

/// Returns start and duration in nanoseconds, each end rounded down, and true for a point in time.
/// `None` if an end is not [in range](TimeNs::is_in_range).
pub(crate) fn event_times(start_ps: i128, duration_ps: i128) -> Option<(TimeNs, DurationNs, bool)> {
    let end_ps = start_ps + duration_ps;
    let start = time_in_range(start_ps)?;
    let duration = time_in_range(end_ps)? - start;
    Some((start, duration, duration_ps <= LEAST_PS))
}

fn time_in_range(ps: i128) -> Option<TimeNs> {
    let ns = i64::try_from(ps.div_euclid(PS_PER_NS)).ok()?;
    Some(TimeNs(ns)).filter(|time| time.is_in_range())
}

/// Parses a textual stat by its name, if it contains details:
///
/// `kernel_details`: `regs:32 static_shared:0 grid:16,1,1 block:512,1,1`; `memcpy_details`:
/// `kind_src:pageable kind_dst:device size:256 dest:0 async:1`
/// (`xla/backends/profiler/gpu/cupti_utils.cc`, `ToXStat`).
pub(crate) fn read_details(stat: &str, text: &str, details: &mut WorkDetails) {
    match stat {
        "kernel_details" => details.work = StreamWork::Kernel,
        "memcpy_details" => details.work = StreamWork::Memcpy,
        "memset_details" | "Memset_details" => details.work = StreamWork::Memset,
        "memalloc_details"
        | "memfree_details"
        | "MemFree_details"
        | "memory_residency_details"
        | "MemoryResidency_details" => details.work = StreamWork::Memory,
        _ => return,
    }
    for word in text.split_ascii_whitespace() {
        match word.split_once(':') {
            Some(("grid", sizes)) => details.grid = three_sizes(sizes),
            Some(("block", sizes)) => details.block = three_sizes(sizes),
            Some(("size" | "num_bytes", bytes)) => details.bytes = bytes.parse().unwrap_or(0),
            _ => {}
        }
    }
}

/// Parses `16,1,1`; anything absent or not a number is 0.
fn three_sizes(text: &str) -> [u32; 3] {
    let mut sizes = [0; 3];
    for (size, digits) in sizes.iter_mut().zip(text.split(',')) {
        *size = digits.parse().unwrap_or(0);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_rounded_down() {
        let times = |start, duration| event_times(start, duration).expect("in range");
        assert_eq!(times(1_999, 2_001), (TimeNs(1), DurationNs(3), false));
        // adjacent events stay adjacent
        assert_eq!(times(4_000, 999), (TimeNs(4), DurationNs(0), false));
        assert_eq!(times(-1, 0), (TimeNs(-1), DurationNs(0), true));
        assert_eq!(times(12_000, 1), (TimeNs(12), DurationNs(0), true));
        let most = i128::from(i64::MAX) * 1_000;
        assert_eq!(event_times(most + most / 1_000, 0), None);
        // The difference of two such times would overflow.
        for (start, duration) in [(most, 0), (-most, 0), (0, most), (-most, 2 * most)] {
            assert_eq!(event_times(start, duration), None, "{start} {duration}");
        }
    }

    #[test]
    fn details_by_their_words() {
        let details = |stat: &str, text: &str| {
            let mut details = WorkDetails::default();
            read_details(stat, text, &mut details);
            details
        };
        assert_eq!(
            details("kernel_details", " grid:219,40,1 block:256,1,1 occ_pct:0"),
            WorkDetails {
                grid: [219, 40, 1],
                block: [256, 1, 1],
                ..WorkDetails::default()
            }
        );
        let copy = details("memcpy_details", "kind_src:device size:256 dest:0 async:1");
        assert_eq!((copy.work, copy.bytes), (StreamWork::Memcpy, 256));
        assert_eq!(details("memset_details", "").work, StreamWork::Memset);
        assert_eq!(details("kernel_details", "grid:x,,7").grid, [0, 0, 7]);
        assert_eq!(details("hlo_op", "grid:1,1,1"), WorkDetails::default());
    }
}
