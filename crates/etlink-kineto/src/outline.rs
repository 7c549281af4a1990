//! What tells where a slice of a trace begins and ends, in memory that does not grow with the trace but
//! for its annotations.

use etlink_model::{Correlation, DeviceRow, DeviceTrace, DurationNs, KeptTime, NameId, TimeNs};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// No event is in it.
pub(crate) const NOTHING: KeptTime = KeptTime {
    from: TimeNs(i64::MAX),
    until: TimeNs(i64::MIN),
};

/// Stretches of time are doubled where there are more.
const MOST_STRETCHES: usize = 4096;

/// What is read of a trace for a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEvents {
    /// When it is.
    pub time: KeptTime,
    /// Ids of what may have been launched in it.
    pub launches: RangeInclusive<i64>,
}

/// What a trace has, as far as slices are chosen by it.
#[derive(Clone, Debug, Default)]
pub struct TraceOutline {
    /// Its annotations, and a device row for each stretch of time, as long as all rows that began in it.
    pub trace: DeviceTrace,
    /// First start and last end of ops, runtime calls and device rows.
    pub window: Option<(TimeNs, TimeNs)>,
    launches: Stretches,
}

impl TraceOutline {
    /// That of a trace which was read as a whole.
    pub fn of_trace(trace: DeviceTrace) -> TraceOutline {
        TraceOutline {
            window: trace.window(),
            trace,
            launches: Stretches::default(),
        }
    }

    /// What is to be read for a slice.
    pub fn slice(&self, time: KeptTime) -> SliceEvents {
        let Stretches { width, stretches } = &self.launches;
        let range = time.from.0 >> width..=time.until.0 >> width;
        let ids = stretches.range(range).filter_map(|(_, own)| own.ids);
        let ids = ids.reduce(|all, own| (all.0.min(own.0), all.1.max(own.1)));
        let (first, last) = ids.unwrap_or((1, 0));
        SliceEvents {
            time,
            launches: first..=last,
        }
    }
}

/// What happened in stretches of time of the same length.
#[derive(Clone, Debug, Default)]
struct Stretches {
    /// Their length is 2 to the power of this, ns.
    width: u32,
    /// By their place in time.
    stretches: BTreeMap<i64, Stretch>,
}

/// What happened in a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    /// The least and the greatest id of calls that began in it.
    ids: Option<(i64, i64)>,
    /// Length of the device rows that began in it.
    rows: DurationNs,
    /// Length of the ops that began in it.
    ops: DurationNs,
}

impl Stretch {
    fn add(&mut self, other: Stretch) {
        self.ids = match (self.ids, other.ids) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        self.rows += other.rows;
        self.ops += other.ops;
    }
}

impl Stretches {
    fn add(&mut self, time: TimeNs, stretch: Stretch) {
        let place = time.0 >> self.width;
        self.stretches.entry(place).or_default().add(stretch);
        while self.stretches.len() > MOST_STRETCHES {
            self.width += 1;
            for (place, own) in std::mem::take(&mut self.stretches) {
                self.stretches.entry(place >> 1).or_default().add(own);
            }
        }
    }
}

/// Makes an outline, chunk by chunk.
pub(crate) struct OutlineBuilder<'k> {
    is_step: &'k (dyn Fn(&str) -> bool + Sync),
    window: Option<(TimeNs, TimeNs)>,
    launches: Stretches,
}

impl<'k> OutlineBuilder<'k> {
    pub(crate) fn new(is_step: &'k (dyn Fn(&str) -> bool + Sync)) -> OutlineBuilder<'k> {
        OutlineBuilder {
            is_step,
            window: None,
            launches: Stretches::default(),
        }
    }

    /// Adds a chunk, which keeps its annotations and steps alone.
    pub(crate) fn add(&mut self, part: &mut DeviceTrace) {
        if let Some((start, end)) = part.window() {
            let (first, last) = self.window.unwrap_or((start, end));
            self.window = Some((first.min(start), last.max(end)));
        }
        for (start, id) in part.calls.start.iter().zip(&part.calls.correlation) {
            let ids = id.get().map(|Correlation(id)| (id, id));
            let stretch = Stretch {
                ids,
                ..Stretch::default()
            };
            self.launches.add(*start, stretch);
        }
        for (start, rows) in part.rows.start.iter().zip(&part.rows.duration) {
            let stretch = Stretch {
                rows: *rows,
                ..Stretch::default()
            };
            self.launches.add(*start, stretch);
        }
        let ops = &part.ops;
        // few names, many ops
        let mut steps: Vec<Option<bool>> = vec![None; part.names.count()];
        let mut is_step = |name: NameId| {
            let known = &mut steps[name.index()];
            *known.get_or_insert_with(|| (self.is_step)(part.names.get(name)))
        };
        let mut kept = vec![];
        for op in 0..ops.len() {
            if ops.annotation[op] || is_step(ops.name[op]) {
                kept.push(op as u32);
            }
            if !ops.annotation[op] {
                let stretch = Stretch {
                    ops: ops.duration[op],
                    ..Stretch::default()
                };
                self.launches.add(ops.start[op], stretch);
            }
        }
        part.ops.reorder(&kept);
        let annotations = std::mem::take(&mut part.ops);
        part.keep(NOTHING, &|_| false);
        part.ops = annotations;
        part.ops.collective.fill(u32::MAX);
    }

    pub(crate) fn finish(self, mut trace: DeviceTrace) -> TraceOutline {
        let Stretches { width, stretches } = &self.launches;
        let has_rows = stretches.values().any(|own| own.rows > DurationNs(0));
        for (place, own) in stretches {
            // Which work was launched when, roughly: rows begin soon after.
            trace.rows.push(DeviceRow {
                start: TimeNs(place << width),
                duration: if has_rows { own.rows } else { own.ops },
                ..DeviceRow::default()
            });
        }
        TraceOutline {
            trace,
            window: self.window,
            launches: self.launches,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_a_slice_are_among_those_that_are_read() {
        let mut launches = Stretches::default();
        let time = |call: i64| TimeNs(call * 1_000 - 5_000_000);
        for call in 0..100_000 {
            let stretch = Stretch {
                ids: Some((call, call)),
                ..Stretch::default()
            };
            launches.add(time(call), stretch);
        }
        assert!(launches.stretches.len() <= MOST_STRETCHES);
        let outline = TraceOutline {
            launches,
            ..TraceOutline::default()
        };
        let slice = outline.slice(KeptTime {
            from: time(40_000),
            until: time(50_000),
        });
        let (first, last) = slice.launches.into_inner();
        assert!(first <= 40_000 && last >= 49_999);
        // no more than a stretch on either side
        assert!(first > 39_900 && last < 50_100, "{first} {last}");
    }
}
