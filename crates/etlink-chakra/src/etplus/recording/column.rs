//! Columns as lists of numbers: cell types, writing and reading.

use super::names::NameNumbers;
use etlink_model::{
    Correlation, DurationNs, NameId, QueueIdx, RfId, RowIdx, RowKind, ThreadIdx, TimeNs,
};
use serde::{Deserialize, Serialize};

/// Encoding of a column's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// The numbers themselves.
    Plain,
    /// Differences from the previous row; the first counts from 0.
    Delta,
}

/// Minimum length of a run; a shorter one takes no less space as `[value, count]`.
const SHORTEST_RUN: u8 = 4;

/// Types of a column's cells.
pub(super) trait ColumnCell: Copy {
    /// Returns the number of a cell.
    fn number(self, names: &mut NameNumbers<'_>) -> i64;

    /// Returns the cell of a number; `None` if the number is invalid for the type.
    fn from_number(number: i64) -> Option<Self>;
}

macro_rules! cells {
    ($($Cell:ty: $number:expr, $from:expr;)*) => {
        $(impl ColumnCell for $Cell {
            fn number(self, _: &mut NameNumbers<'_>) -> i64 {
                let number: fn($Cell) -> i64 = $number;
                number(self)
            }

            fn from_number(number: i64) -> Option<Self> {
                let from: fn(i64) -> Option<$Cell> = $from;
                from(number)
            }
        })*
    };
}

cells! {
    i64: |cell| cell, Some;
    u64: u64::cast_signed, |number| Some(number.cast_unsigned());
    u32: i64::from, |number| u32::try_from(number).ok();
    bool: i64::from, |number| Some(number != 0);
    TimeNs: |cell| cell.0, |number| in_time(number).map(TimeNs);
    DurationNs: |cell| cell.0, |number| in_time(number).map(DurationNs);
    RfId: |cell| cell.0.cast_signed(), |number| Some(RfId(number.cast_unsigned()));
    Correlation: |cell| cell.0, |number| Some(Correlation(number));
    ThreadIdx: |cell| cell.0.into(), |number| u32::try_from(number).ok().map(ThreadIdx);
    QueueIdx: |cell| cell.0.into(), |number| u32::try_from(number).ok().map(QueueIdx);
    RowIdx: |cell| cell.0.into(), |number| u32::try_from(number).ok().map(RowIdx);
    RowKind: |cell| cell as i64, |number| KINDS.get(usize::try_from(number).ok()?).copied();
}

/// Names are numbered in the recording's own list.
impl ColumnCell for NameId {
    fn number(self, names: &mut NameNumbers<'_>) -> i64 {
        names.number(self)
    }

    fn from_number(number: i64) -> Option<Self> {
        u32::try_from(number).ok().map(NameId)
    }
}

/// Returns a time, in ns, that readers of recordings keep; `None` otherwise.
pub(super) fn in_time(ns: i64) -> Option<i64> {
    TimeNs(ns).is_in_range().then_some(ns)
}

/// Kinds in the order of their numbers.
const KINDS: [RowKind; 4] = [
    RowKind::Kernel,
    RowKind::Memcpy,
    RowKind::Memset,
    RowKind::GraphNode,
];

/// A number, or a run of equal ones: the number and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Run {
    One(i64),
    Many(i64, u8),
}

/// Numbers of a column, as in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct NumberList(Vec<Run>);

impl NumberList {
    pub(super) fn new(coding: Coding, numbers: impl Iterator<Item = i64>) -> NumberList {
        let mut list = NumberList::default();
        let (mut before, mut run) = (0, (0, 0));
        for number in numbers {
            let number = match coding {
                Coding::Plain => number,
                Coding::Delta => {
                    let step = number.wrapping_sub(before);
                    before = number;
                    step
                }
            };
            // Longer runs are split, so that a file's size bounds its memory.
            if run.0 != number || run.1 == u8::MAX {
                list.push(run);
                run = (number, 0);
            }
            run.1 += 1;
        }
        list.push(run);
        list
    }

    fn push(&mut self, (number, count): (i64, u8)) {
        if count >= SHORTEST_RUN {
            self.0.push(Run::Many(number, count));
        } else {
            self.0.extend((0..count).map(|_| Run::One(number)));
        }
    }

    /// Returns the numbers if there are exactly `rows`.
    pub(super) fn numbers(&self, coding: Coding, rows: usize) -> Option<Vec<i64>> {
        let runs = || {
            self.0.iter().map(|run| match *run {
                Run::One(number) => (number, 1),
                Run::Many(number, count) => (number, usize::from(count)),
            })
        };
        if runs().map(|(_, count)| count).sum::<usize>() != rows {
            return None;
        }
        let mut numbers = Vec::with_capacity(rows);
        let mut before = 0i64;
        for (number, count) in runs() {
            for _ in 0..count {
                before = match coding {
                    Coding::Plain => number,
                    Coding::Delta => before.wrapping_add(number),
                };
                numbers.push(before);
            }
        }
        Some(numbers)
    }
}
