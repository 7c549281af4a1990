//! Whether the id of a communicator names a group of ranks.

use crate::comms::Communicators;
use crate::global_pid::TID_BITS;
use crate::payload::NcclPayload;
use crate::{Error, ExportReader, nvtx};
use etlink_sqlite::{begin_query, unless_damaged};

/// Addresses of programs have no higher bits (x86-64 and AArch64 with 48 bits).
const ADDRESS_BITS: u32 = 48;

impl ExportReader<'_> {
    /// Whether the id of the only communicator that the process uses names its group. It does where
    /// ranks share it. Before NCCL 2.24 it is an address, which differs between ranks: a group of all
    /// ranks needs no name, and of a smaller one the other members are not known.
    ///
    /// # Errors
    /// The ranges cannot be read, and that is not the file's fault.
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
            // A report of one rank shows no other ids: only a size can tell that others are apart.
            0 | 1 => size.zip(ranks).is_some_and(|(size, ranks)| size != ranks),
            count => size != Some(ranks.unwrap_or(count as u64)),
        };
        Ok(is_apart)
    }

    /// Whether ranges of another process have a communicator of this id. O(ranges) where none has.
    fn is_used_by_another(&self, id: u64) -> Result<bool, Error> {
        let table = self.tables.table(nvtx::RANGES);
        let has_payloads = table.is_some_and(|table| table.has_column("jsonText"));
        if !has_payloads {
            return Ok(false);
        }
        let Some(process) = self.global_pid() else {
            return Ok(false);
        };
        // The number can also be a part of another one: what is found is read as JSON.
        let query = "SELECT jsonText FROM NVTX_EVENTS \
                     WHERE (globalTid >> ?1) <> ?2 AND instr(jsonText, ?3)";
        let values = (TID_BITS, process.0 >> TID_BITS, id.to_string());
        // Damage of the table is told of where its ranges are read.
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
