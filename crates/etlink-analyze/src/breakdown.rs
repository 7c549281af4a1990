//! Where device time goes.
//!
//! The *window* of a device is from its first row's start to its last row's end. Each instant of it belongs to the
//! first that holds: computation runs, communication runs, a copy or memset runs, a row that stands for no work (such as a wait), nothing:
//!
//! ```text
//! window = computation + exposed communication + exposed memory + exposed other + idle        exactly, ns
//! busy = window - exposed other - idle
//! overlap = time in which both computation and communication run;  overlap share = overlap / communication
//! communication = exposed communication + overlap
//! ```
//! Rows of one class that overlap count once. Rows of all streams of a device count together, those of other
//! devices do not: a sum over devices or ranks is a sum of device time, not of wall time.

use crate::intervals::{Intervals, by_mask};
use crate::rows::Rows;
use crate::rules::Class;
use serde::Serialize;

/// Device time by class, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DeviceTime {
    /// Device number; none of a sum.
    pub device: Option<i64>,
    /// Start of the first row, ns since the origin of the trace; 0 of a sum.
    pub start_ns: i64,
    /// From the first row's start to the last row's end.
    pub window_ns: i64,
    /// Computation runs.
    pub computation_ns: i64,
    /// Communication runs and no computation.
    pub exposed_communication_ns: i64,
    /// A copy or memset runs, and neither of the above.
    pub exposed_memory_ns: i64,
    /// Rows that stand for no work, such as waits, and none of the above.
    pub exposed_other_ns: i64,
    /// Nothing runs.
    pub idle_ns: i64,
    /// Communication runs.
    pub communication_ns: i64,
    /// Copies or memsets run.
    pub memory_ns: i64,
    /// Both computation and communication run.
    pub overlap_ns: i64,
    /// `overlap_ns / communication_ns`; none without communication.
    pub overlap_share: Option<f64>,
}

impl DeviceTime {
    /// Adds another device's or rank's times.
    pub fn add(&mut self, other: &DeviceTime) {
        let to = [
            &mut self.window_ns,
            &mut self.computation_ns,
            &mut self.exposed_communication_ns,
            &mut self.exposed_memory_ns,
            &mut self.exposed_other_ns,
            &mut self.idle_ns,
            &mut self.communication_ns,
            &mut self.memory_ns,
            &mut self.overlap_ns,
        ];
        for (to, from) in to.into_iter().zip(other.times()) {
            *to = to.saturating_add(from);
        }
        self.overlap_share = share(self.overlap_ns, self.communication_ns);
    }

    /// Work runs.
    pub fn busy_ns(&self) -> i64 {
        self.window_ns
            .saturating_sub(self.idle_ns)
            .saturating_sub(self.exposed_other_ns)
    }

    fn times(&self) -> [i64; 9] {
        let exposed = [
            self.exposed_communication_ns,
            self.exposed_memory_ns,
            self.exposed_other_ns,
        ];
        let [communication, memory, other] = exposed;
        [
            self.window_ns,
            self.computation_ns,
            communication,
            memory,
            other,
            self.idle_ns,
            self.communication_ns,
            self.memory_ns,
            self.overlap_ns,
        ]
    }

    /// Of these rows, in order of their starts.
    pub(crate) fn of(rows: &Rows<'_>, which: impl Iterator<Item = usize>) -> DeviceTime {
        let mut sets: [Intervals; 4] = Default::default();
        let mut window: Option<(i64, i64)> = None;
        for row in which {
            let (start, end) = rows.span(row);
            sets[rows.class[row] as usize].push(start, end);
            window = Some(window.map_or((start, end), |(first, last)| (first, last.max(end))));
        }
        DeviceTime::new(window.unwrap_or_default(), &sets)
    }

    fn new((start, end): (i64, i64), sets: &[Intervals; 4]) -> DeviceTime {
        let times: [i64; 16] = by_mask(sets);
        let sum = |holds: fn(usize) -> bool| {
            (0..16)
                .filter(|mask| holds(*mask))
                .fold(0i64, |sum, mask| sum.saturating_add(times[mask]))
        };
        let has = |class: Class| sets[class as usize].total();
        let busy = sum(|mask| mask != 0);
        let (overlap_ns, communication_ns) =
            (sum(|mask| mask & 0b11 == 0b11), has(Class::Communication));
        DeviceTime {
            device: None,
            start_ns: start,
            window_ns: end.saturating_sub(start),
            computation_ns: has(Class::Computation),
            exposed_communication_ns: sum(|mask| mask & 0b11 == 0b10),
            exposed_memory_ns: sum(|mask| mask & 0b111 == 0b100),
            exposed_other_ns: times[0b1000],
            // also before the first and after the last row that has a length
            idle_ns: end.saturating_sub(start).saturating_sub(busy),
            communication_ns,
            memory_ns: has(Class::Memory),
            overlap_ns,
            overlap_share: share(overlap_ns, communication_ns),
        }
    }
}

fn share(part: i64, whole: i64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Per device with rows, by number. O(rows).
pub(crate) fn breakdown(rows: &Rows<'_>) -> Vec<DeviceTime> {
    let of = |(device, which): (&i64, &Vec<usize>)| DeviceTime {
        device: Some(*device),
        ..DeviceTime::of(rows, which.iter().copied())
    };
    rows.devices.iter().zip(&rows.of_devices).map(of).collect()
}

/// Sum over all of them.
pub(crate) fn sum<'a>(all: impl Iterator<Item = &'a DeviceTime>) -> DeviceTime {
    let mut sum = DeviceTime::default();
    all.for_each(|one| sum.add(one));
    sum
}
