//! MPI calls, which have separate tables since schema 3.

use crate::Error;
use crate::nsys::ExportReader;
use crate::nsys::comms::{
    CommFacts, Communicators, input_and_output, is_immediate, member_list, mpi_kind,
};
use crate::nsys::times::row_times;
use crate::sqlite::{RowFilter, scan_rows};
use etlink_model::{Anomalies, CollectiveKind};

/// Table of collectives.
pub(crate) const COLLECTIVES: &str = "MPI_COLLECTIVES_EVENTS";
/// Table of sends and receives.
pub(crate) const MESSAGES: &str = "MPI_P2P_EVENTS";
/// Table of `MPI_Wait`, `MPI_Start` and similar calls.
pub(crate) const WAITS: &str = "MPI_START_WAIT_EVENTS";
/// Table of all other calls.
pub(crate) const OTHERS: &str = "MPI_OTHER_EVENTS";

impl ExportReader<'_> {
    /// Reads the MPI calls of the process.
    pub(crate) fn read_mpi(&mut self) -> Result<(), Error> {
        let mut communicators = self.mpi_communicators()?;
        for name in [COLLECTIVES, MESSAGES, WAITS, OTHERS] {
            self.read_mpi_table(name, &mut communicators)?;
        }
        // Handles are per-process numbers, so naming a lone communicator by its handle would join
        // nothing.
        communicators.finish(&mut self.assembler.trace, false);
        Ok(())
    }

    fn read_mpi_table(
        &mut self,
        name: &'static str,
        communicators: &mut Communicators,
    ) -> Result<(), Error> {
        let Some(table) = self.tables.table(name) else {
            return Ok(());
        };
        let columns = [
            "start",
            "end",
            "globalTid",
            "textId",
            "commHandle",
            "size",
            "recvSize",
            "rootRank",
            "remoteRank",
        ];
        let (connection, filter) = (self.connection, self.of_threads());
        let mut anomalies = Anomalies::default();
        let mut count = 0;
        let scanned = scan_rows(connection, table, &columns, filter, |cells| {
            let Some(times) = row_times(cells, name, &mut anomalies) else {
                return;
            };
            let text = self.string(cells.int(3));
            let trace = &mut self.assembler.trace;
            let function = trace.names.get(text);
            let asynchronous = is_immediate(function);
            let kind = match name {
                COLLECTIVES | MESSAGES => mpi_kind(function),
                _ => CollectiveKind::Other,
            };
            let communicator = cells.bits(4);
            let ranks = communicator.and_then(|of| communicators.sizes.get(&of));
            let (input, output) = match (cells.uint(5), cells.uint(6)) {
                (Some(sent), Some(received)) => (sent, received),
                (size, _) => {
                    let ranks = ranks.copied().unwrap_or(0);
                    input_and_output(kind, size.unwrap_or(0), ranks)
                }
            };
            let facts = CommFacts {
                input,
                output,
                is_sized: cells.uint(5).is_some(),
                peer: cells.int(8).or(cells.int(7)).filter(|rank| *rank >= 0),
                communicator,
                asynchronous,
            };
            let collective = communicators.push_record(trace, kind, facts);
            self.push_op(text, cells.int(2).unwrap_or(0), times, collective);
            count += 1;
        })?;
        self.note_anomalies([anomalies, scanned.anomalies]);
        self.count_rows("X mpi", count);
        Ok(())
    }

    /// Reads sizes and members of communicators. Handles are valid within a process.
    fn mpi_communicators(&mut self) -> Result<Communicators, Error> {
        let mut communicators = Communicators::default();
        let Some(table) = self.tables.table("MPI_COMMUNICATORS") else {
            return Ok(communicators);
        };
        let own = self.assembler.trace.header.rank.map(|rank| rank.0);
        let columns = ["rank", "commHandle", "size", "members"];
        let scanned = scan_rows(self.connection, table, &columns, RowFilter::All, |cells| {
            // The table states the rank that created a communicator, but no process.
            let is_other = own.is_some() && cells.int(0).is_some_and(|rank| Some(rank) != own);
            if is_other {
                return;
            }
            let Some(handle) = cells.bits(1) else {
                return;
            };
            if let Some(size) = cells.uint(2) {
                communicators.sizes.insert(handle, size);
            }
            let members = cells.text(3);
            if let Some(members) = members.as_deref().and_then(member_list) {
                communicators.members.insert(handle, members);
            }
        })?;
        self.note_anomalies([scanned.anomalies]);
        Ok(communicators)
    }
}
