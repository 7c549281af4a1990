//! Columns as lists of numbers: cell types, writing and reading.

use super::names::NameNumbers;
use etlink_model::{
    Correlation, DurationNs, NameId, QueueIdx, RfId, RowIdx, RowKind, ThreadIdx, TimeNs,
};
use serde::de::{Deserializer, SeqAccess, Visitor};
use std::fmt;

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
    RowKind: kind_number, kind_of_number;
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

const KINDS: [RowKind; 4] = [
    RowKind::Kernel,
    RowKind::Memcpy,
    RowKind::Memset,
    RowKind::GraphNode,
];

fn kind_number(kind: RowKind) -> i64 {
    match kind {
        RowKind::Kernel => 0,
        RowKind::Memcpy => 1,
        RowKind::Memset => 2,
        RowKind::GraphNode => 3,
    }
}

fn kind_of_number(number: i64) -> Option<RowKind> {
    let place = usize::try_from(number).ok()?;
    KINDS.get(place).copied()
}

/// Writes a list of numbers.
pub(super) fn write_numbers(
    out: &mut Vec<u8>,
    coding: Coding,
    numbers: impl Iterator<Item = i64>,
) -> std::io::Result<()> {
    let mut list = ListWriter { out, any: false };
    list.out.push(b'[');
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
            list.run(run)?;
            run = (number, 0);
        }
        run.1 += 1;
    }
    list.run(run)?;
    list.out.push(b']');
    Ok(())
}

struct ListWriter<'o> {
    out: &'o mut Vec<u8>,
    any: bool,
}

impl ListWriter<'_> {
    fn run(&mut self, (number, count): (i64, u8)) -> std::io::Result<()> {
        if count >= SHORTEST_RUN {
            self.comma();
            return etlink_json::write::number(self.out, (number, count));
        }
        for _ in 0..count {
            self.comma();
            etlink_json::write::number(self.out, number)?;
        }
        Ok(())
    }

    fn comma(&mut self) {
        if std::mem::replace(&mut self.any, true) {
            self.out.push(b',');
        }
    }
}

/// A list as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NumberList(Vec<(i64, u8)>);

impl NumberList {
    /// Returns the numbers if there are exactly `rows`.
    pub(super) fn numbers(&self, coding: Coding, rows: usize) -> Option<Vec<i64>> {
        let counts = self.0.iter().map(|(_, count)| usize::from(*count));
        if counts.sum::<usize>() != rows {
            return None;
        }
        let mut numbers = Vec::with_capacity(rows);
        let mut before = 0i64;
        for &(number, count) in &self.0 {
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

impl<'de> serde::Deserialize<'de> for NumberList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = NumberList;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of whole numbers and [number, count]")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<NumberList, A::Error> {
        let mut numbers = vec![];
        while let Some(Run(number, count)) = list.next_element()? {
            numbers.push((number, count));
        }
        Ok(NumberList(numbers))
    }
}

/// A number and its number of repetitions.
struct Run(i64, u8);

impl<'de> serde::Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RunVisitor)
    }
}

struct RunVisitor;

impl<'de> Visitor<'de> for RunVisitor {
    type Value = Run;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a whole number or [number, count]")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Run, E> {
        Ok(Run(number, 1))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Run, E> {
        i64::try_from(number)
            .map(|number| Run(number, 1))
            .map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pair: A) -> Result<Run, A::Error> {
        let missing = || serde::de::Error::custom("a run without its count");
        let number = pair.next_element()?.ok_or_else(missing)?;
        let count = pair.next_element()?.ok_or_else(missing)?;
        Ok(Run(number, count))
    }
}
