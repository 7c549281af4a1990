//! Values of stored results that only serde can encode.

use borsh::{BorshDeserialize, BorshSerialize};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// Writes a value of a result by its serde form.
pub(crate) fn write_stored<T: Serialize, W: Write>(value: &T, out: &mut W) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    BorshSerialize::serialize(&bytes, out)
}

/// Reads a value that [`write_stored`] wrote.
pub(crate) fn read_stored<T: DeserializeOwned, R: Read>(from: &mut R) -> io::Result<T> {
    let bytes = Vec::<u8>::deserialize_reader(from)?;
    Ok(serde_json::from_slice(&bytes)?)
}
