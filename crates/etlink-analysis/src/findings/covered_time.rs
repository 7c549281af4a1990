//! Duration of an activity within a time span.

/// Cumulative time covered by an activity.
#[derive(Debug)]
pub(crate) struct CoveredTime {
    /// Start and end of disjoint spans, ascending, and the total length of the earlier spans.
    spans: Vec<(i64, i64, i64)>,
}

impl CoveredTime {
    pub(crate) fn new(mut all: Vec<(i64, i64)>) -> CoveredTime {
        all.sort_unstable();
        let mut spans: Vec<(i64, i64, i64)> = vec![];
        for (start, end) in all {
            // Rows can overlap: each moment counts once.
            match spans.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                Some(last) => {
                    let before = last.2.saturating_add(last.1.saturating_sub(last.0));
                    spans.push((start, end, before));
                }
                None => spans.push((start, end, 0)),
            }
        }
        CoveredTime { spans }
    }

    /// Returns the covered time between two instants. O(log spans).
    pub(crate) fn between(&self, start: i64, end: i64) -> i64 {
        self.until(end).saturating_sub(self.until(start))
    }

    /// Returns the covered time that `other` does not cover, in ns. O(spans · log spans).
    pub(crate) fn without(&self, other: &CoveredTime) -> i64 {
        let spans = self.spans.iter();
        let alone = spans.map(|(start, end, _)| {
            let length = end.saturating_sub(*start);
            length.saturating_sub(other.between(*start, *end))
        });
        alone.fold(0, i64::saturating_add)
    }

    fn until(&self, time: i64) -> i64 {
        let begun = self.spans.partition_point(|span| span.0 <= time);
        let Some(last) = begun.checked_sub(1) else {
            return 0;
        };
        let (start, end, before) = self.spans[last];
        before.saturating_add(end.min(time).saturating_sub(start))
    }
}
