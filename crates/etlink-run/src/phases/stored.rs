//! Encoding of a rank's result in a shard's file.

use super::error::StoredError;
use crate::error::{RunError, remedy_of};
use crate::run::RankResult;
use crate::text;
use borsh::{BorshDeserialize, BorshSerialize};
use etlink_link::ranks::RankSummary;
use std::io::{self, Read, Write};

impl From<&RunError> for StoredError {
    fn from(error: &RunError) -> StoredError {
        StoredError {
            message: text::error_chain(error),
            remedy: remedy_of(error),
            file: error.file(),
            place: error.place(),
            is_refused: error.is_refused(),
        }
    }
}

impl<T: BorshSerialize> BorshSerialize for RankResult<T> {
    fn serialize<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        // summaries are encoded as in the phases of a merge
        let summary = self.summary.as_ref().map(postcard::to_stdvec).transpose();
        let summary: Option<Vec<u8>> = summary.map_err(io::Error::other)?;
        (&self.label, summary, &self.notes, &self.value).serialize(writer)
    }
}

impl<T: BorshDeserialize> BorshDeserialize for RankResult<T> {
    fn deserialize_reader<R: Read>(reader: &mut R) -> io::Result<RankResult<T>> {
        let label = String::deserialize_reader(reader)?;
        let summary = Option::<Vec<u8>>::deserialize_reader(reader)?;
        let summary = summary.map(|bytes| postcard::from_bytes::<RankSummary>(&bytes));
        Ok(RankResult {
            label,
            summary: summary.transpose().map_err(io::Error::other)?,
            notes: Vec::deserialize_reader(reader)?,
            value: T::deserialize_reader(reader)?,
        })
    }
}
