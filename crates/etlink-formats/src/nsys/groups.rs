//! Decides if the id of a communicator names a group of ranks.

use crate::Error;
use crate::nsys::comms::Communicators;
use crate::nsys::global_pid::TID_BITS;
use crate::nsys::payload::NcclPayload;
use crate::nsys::{ExportReader, nvtx};
use crate::sqlite::{begin_query, unless_damaged};

/// Number of bits in a program address (x86-64 and AArch64 with 48 bits).
const ADDRESS_BITS: u32 = 48;

impl ExportReader<'_> {
    /// Returns true if the id of the process's only communicator names its group, that is, if ranks
    /// share the id. Before NCCL 2.24 the id is an address, which differs between ranks. A group of
    /// all ranks then needs no name; the members of a smaller group are unknown.
    ///
    /// # Errors
    /// The ranges could not be read for a reason other than a damaged file.
    pub(crate) fn names_group(&self, communicators: &Communicators) -> Result<bool, Error> {
        let Some(id) = communicators.only_one() else {
            return Ok(true);
        };
        let size = communicators.sizes.get(&id).copied();
        let told = self.process.as_ref().and_then(|process| process.rank);
        let world_size = told.and_then(|rank| rank.world_size);
        let ranks = world_size.and_then(|size| u64::try_from(size).ok());
        if id >> ADDRESS_BITS != 0 || self.is_used_by_another(id)? {
            return Ok(true);
        }
        let is_apart = match self.process_count {
            // A report of one rank shows no other ids: only a size can prove that other ranks are
            // in other groups.
            0 | 1 => size.zip(ranks).is_some_and(|(size, ranks)| size != ranks),
            count => size != Some(ranks.unwrap_or(count as u64)),
        };
        Ok(is_apart)
    }

    /// Returns true if ranges of another process have a communicator with this id. O(ranges).
    fn is_used_by_another(&self, id: u64) -> Result<bool, Error> {
        let table = self.tables.table(nvtx::RANGES);
        let has_payloads = table.is_some_and(|table| table.has_column("jsonText"));
        if !has_payloads {
            return Ok(false);
        }
        let Some(process) = self.global_pid() else {
            return Ok(false);
        };
        // The number can also be part of a longer one, so matches are parsed as JSON.
        let query = "SELECT jsonText FROM NVTX_EVENTS \
                     WHERE (globalTid >> ?1) <> ?2 AND instr(jsonText, ?3)";
        let values = (TID_BITS, process.0 >> TID_BITS, id.to_string());
        // Table damage is reported when the ranges are read.
        begin_query();
        let query = unless_damaged(nvtx::RANGES, self.connection.prepare(query))?;
        let Some(mut query) = query else {
            return Ok(false);
        };
        let Some(mut rows) = unless_damaged(nvtx::RANGES, query.query(values))? else {
            return Ok(false);
        };
        while let Some(row) = unless_damaged(nvtx::RANGES, rows.next())?.flatten() {
            let text = row.get::<_, String>(0).unwrap_or_default();
            if NcclPayload::from_text(&text).communicator == Some(id) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
