//! The columns of each table.

use super::column::{Coding, ColumnCell, NumberList};
use super::names::NameNumbers;
use etlink_model::{
    CollectiveRecords, CpuOps, DeviceRows, GraphDependencies, OpProducers, RuntimeCalls, SyncRows,
    ThreadWaits,
};
use indexmap::IndexMap;
use serde::Deserialize;
use std::io;

/// Writer of one table.
pub(super) struct TableWriter<'o, 'n> {
    out: &'o mut Vec<u8>,
    names: &'o mut NameNumbers<'n>,
    any: bool,
}

impl<'o, 'n> TableWriter<'o, 'n> {
    /// Begins a table of `rows` rows. `is_first` is true if no table precedes it.
    pub(super) fn begin(
        name: &str,
        (rows, is_first): (usize, bool),
        out: &'o mut Vec<u8>,
        names: &'o mut NameNumbers<'n>,
    ) -> io::Result<Self> {
        out.extend_from_slice(if is_first { b"\n" } else { b",\n" });
        etlink_json::write::text(out, name)?;
        out.extend_from_slice(b": {\"rows\": ");
        etlink_json::write::number(out, rows)?;
        out.extend_from_slice(b", \"columns\": {");
        Ok(TableWriter {
            out,
            names,
            any: false,
        })
    }

    pub(super) fn column<T: ColumnCell>(
        &mut self,
        name: &str,
        coding: Coding,
        cells: impl Iterator<Item = T>,
    ) -> io::Result<()> {
        if std::mem::replace(&mut self.any, true) {
            self.out.extend_from_slice(b", ");
        }
        etlink_json::write::text(self.out, name)?;
        self.out.extend_from_slice(b": ");
        let names = &mut *self.names;
        let list = NumberList::new(coding, cells.map(|cell| cell.number(names)));
        Ok(serde_json::to_writer(&mut *self.out, &list)?)
    }

    pub(super) fn end(self) {
        self.out.extend_from_slice(b"}}");
    }
}

/// A table as read from the file.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ReadTable {
    rows: usize,
    columns: IndexMap<String, NumberList>,
}

impl ReadTable {
    /// Returns the cells of a column; `None` if the column is missing, has a different length, or
    /// has an invalid cell.
    pub(super) fn column<T: ColumnCell>(&self, name: &str, coding: Coding) -> Option<Vec<T>> {
        let numbers = self.columns.get(name)?.numbers(coding, self.rows)?;
        numbers.into_iter().map(T::from_number).collect()
    }
}

/// A table with some columns stored in the file.
pub(super) trait RecordedTable: Sized {
    /// Writes the stored columns.
    fn write(&self, writer: &mut TableWriter<'_, '_>) -> io::Result<()>;

    /// Reads the stored columns; the others stay empty.
    fn read(table: &ReadTable) -> Option<Self>;
}

macro_rules! recorded {
    ($($Table:ident { $($column:ident: $coding:ident,)* })*) => {
        $(impl RecordedTable for $Table {
            fn write(&self, writer: &mut TableWriter<'_, '_>) -> io::Result<()> {
                $(writer.column(
                    stringify!($column),
                    Coding::$coding,
                    self.$column.iter().copied(),
                )?;)*
                Ok(())
            }

            #[allow(clippy::needless_update, reason = "some tables are there as a whole")]
            fn read(table: &ReadTable) -> Option<Self> {
                Some($Table {
                    $($column: table.column(stringify!($column), Coding::$coding)?,)*
                    ..$Table::default()
                })
            }
        })*
    };
}

// Names, starts and durations of ops and rows come from their nodes, if they have any.
recorded! {
    CpuOps {
        thread: Plain,
        rf_id: Delta,
        external_id: Delta,
        seq_id: Delta,
        fwd_thread: Plain,
        annotation: Plain,
        unfinished: Plain,
        shapes: Plain,
        types: Plain,
        strides: Plain,
        values: Plain,
        collective: Plain,
    }
    RuntimeCalls {
        name: Plain,
        thread: Plain,
        start: Delta,
        duration: Plain,
        correlation: Delta,
        external_id: Delta,
        kernel: Plain,
    }
    DeviceRows {
        kind: Plain,
        queue: Plain,
        external_id: Delta,
        bytes: Plain,
        graph_node: Delta,
        collective: Plain,
    }
    SyncRows {
        name: Plain,
        queue: Plain,
        unsigned: Plain,
        start: Delta,
        duration: Plain,
        correlation: Delta,
        wait_stream: Plain,
        wait_record: Delta,
        wait_event: Plain,
    }
    ThreadWaits {
        name: Plain,
        thread: Plain,
        start: Delta,
        duration: Plain,
        after: Delta,
        frees: Delta,
    }
    GraphDependencies {
        effect: Delta,
        cause: Delta,
    }
    OpProducers {
        reader: Delta,
        producer: Delta,
    }
    CollectiveRecords {
        name: Plain,
        dtype: Plain,
        in_elements: Plain,
        out_elements: Plain,
        in_split: Plain,
        out_split: Plain,
        rank_start: Plain,
        rank_stride: Plain,
        group_size: Plain,
        group_name: Plain,
        group_desc: Plain,
        group_ranks: Plain,
        rank: Plain,
        src: Plain,
        dst: Plain,
        seq: Delta,
        p2p: Plain,
        asynchronous: Plain,
        comms_id: Plain,
    }
}
